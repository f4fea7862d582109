package logging

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// logged returns the output of a logger with this configuration to standard error, which is a pipe here and no
// terminal.
func logged(t *testing.T, c Config) string {
	t.Helper()
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	stderr := os.Stderr
	os.Stderr = w
	log, err := New(c)
	os.Stderr = stderr
	if err != nil {
		w.Close()
		t.Fatal(err)
	}
	log.Debug("small")
	log.Info("hello", zap.String("site", "north"))
	log.Error("bad")
	w.Close()
	text, err := io.ReadAll(r)
	testkit.Must(t, err)
	return string(text)
}

func TestJSONOffATerminal(t *testing.T) {
	for _, format := range []string{Auto, JSON} {
		lines := strings.Split(strings.TrimSpace(logged(t, Config{Level: "info", Format: format})), "\n")
		if len(lines) != 2 {
			t.Fatalf("%s: %d lines at level info, want 2", format, len(lines))
		}
		var entry struct{ Level, Ts, Msg, Site string }
		if err := json.Unmarshal([]byte(lines[0]), &entry); err != nil {
			t.Fatalf("%s: %q: %v", format, lines[0], err)
		}
		if entry.Level != "info" || entry.Msg != "hello" || entry.Site != "north" || entry.Ts == "" {
			t.Errorf("%s: entry %+v", format, entry)
		}
	}
}

func TestConsoleAndLevels(t *testing.T) {
	text := logged(t, Config{Level: "debug", Format: Console})
	for _, want := range []string{"DEBUG\tsmall", "INFO\thello", "ERROR\tbad"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if text := logged(t, Config{Level: "error", Format: Console}); strings.Contains(text, "hello") ||
		!strings.Contains(text, "bad") {
		t.Errorf("level error wrote %q", text)
	}
}

func TestWhatIsUnknownIsRefused(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for _, c := range []Config{{Level: "loud", Format: Auto}, {Level: "", Format: JSON}, {Level: "info", Format: "xml"},
		{Level: "fatal", Format: JSON}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "; use ") {
			t.Errorf("%+v: error %v does not say what to use", c, err)
		}
	}
}

// A level that is changed counts from the next line on.
func TestTheLevelCanBeChanged(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	stderr := os.Stderr
	os.Stderr = w
	log, level, err := NewLeveled(DefaultConfig())
	os.Stderr = stderr
	if err != nil {
		w.Close()
		t.Fatal(err)
	}
	log.Debug("before")
	level.SetLevel(zap.DebugLevel)
	log.With(zap.String("site", "north")).Debug("after")
	level.SetLevel(zap.ErrorLevel)
	log.Warn("quiet")
	w.Close()
	text, err := io.ReadAll(r)
	testkit.Must(t, err)
	if got := string(text); strings.Contains(got, "before") || !strings.Contains(got, "after") ||
		strings.Contains(got, "quiet") {
		t.Errorf("the log is %q", got)
	}
}
