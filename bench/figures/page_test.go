package figures

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The pages are those of the logs: nobody typed a figure, or forgot to write them anew.
func TestPagesAreGenerated(t *testing.T) {
	files, err := pages(filepath.Join("..", ".."))
	testkit.Must(t, err)
	for path, want := range files {
		got, err := os.ReadFile(path)
		testkit.Must(t, err)
		if string(got) != want {
			t.Errorf("%s is out of date; run: go run ./bench/tables results", path)
		}
	}
	pictures, err := filepath.Glob(filepath.Join("..", "..", "docs", "pictures", "results-*.svg"))
	testkit.Must(t, err)
	for _, path := range pictures {
		if files[path] == "" {
			t.Errorf("%s is no picture of the page", path)
		}
	}
}

func TestLogsThatAreNotThere(t *testing.T) {
	if _, err := pages(t.TempDir()); err == nil || !strings.Contains(err.Error(), "root of the repository") {
		t.Errorf("no logs: %v", err)
	}
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte("{\n"), 0o600))
	if _, err := readLogs(dir); err == nil || !strings.Contains(err.Error(), "x.jsonl") {
		t.Errorf("a broken log: %v", err)
	}
}

// A figure needs three seeds that ended well. Real rows have none, and stand once in a log or oftener.
func TestMeasured(t *testing.T) {
	run := func(name string, null bool, v float64) *Line {
		return &Line{Group: "g", Case: name, Null: null, Figures: map[string]float64{"a": v}}
	}
	failed := run("two", false, 9)
	failed.Failed = "no disk"
	logs := map[string][]*Line{"x": {
		run("run", false, 0.5), run("run", false, 0.6), run("run", false, 0.7), run("run", true, 0.1),
		run("two", false, 0.5), run("two", false, 0.6), failed, run(RealRows, false, 0.9),
	}}
	for _, c := range []struct {
		name string
		null bool
		want string
	}{{"run", false, "0.600 ± 0.100"}, {"run", true, "–"}, {"two", false, "–"}, {RealRows, false, "0.900"}} {
		v := measured(logs, "x", "g", c.name, "a", c.null)
		if v.String() != c.want || v.Known() != (c.want != "–") {
			t.Errorf("%s, null %v: %v, want %s", c.name, c.null, v, c.want)
		}
	}
}

// Figures without their spread.
func TestShortFigures(t *testing.T) {
	known, unknown := value{mean: 12.3456, spread: 1, seeds: 3}, value{}
	got := []string{known.Mean(), known.Tenths(), known.Whole(), unknown.Mean(), unknown.Tenths(), unknown.Whole()}
	if want := []string{"12.346", "12.3", "12", "–", "–", "–"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Runs that failed have no time, and neither have those of a log that does not say it. What failed is told.
func TestSecondsAndFailures(t *testing.T) {
	log := []*Line{
		{Group: "g", Case: "run", Seconds: 20, Processor: 3}, {Group: "g", Case: "run", Seconds: 30, Processor: 4},
		{Group: "g", Case: "run", Seconds: 40, Processor: 5}, {Group: "g", Case: "run", Seconds: 900, Failed: "no end"},
		{Group: "g", Case: "run", Seconds: 900, Failed: "no end"}, {Group: "g", Case: "old", Seconds: 7},
		{Group: "g", Case: "old", Seconds: 7}, {Group: "g", Case: "old", Seconds: 7},
		{Group: "g", Case: "few", Seconds: 1},
	}
	got := []string{seconds(log, "g", "run"), processor(log, "g", "run"), seconds(log, "g", "old"),
		processor(log, "g", "old"), seconds(log, "g", "few")}
	if want := []string{"30", "4", "7", "–", "–"}; !slices.Equal(got, want) {
		t.Errorf("seconds %v, want %v", got, want)
	}
	if all := failures(log); len(all) != 1 || all[0] != "g, run: no end (runs: 2)" {
		t.Errorf("failures %q", all)
	}
}

func TestQuotedWantsWhatIsThere(t *testing.T) {
	if v, err := quoted("weights", "banknote", 1, "beta MSE", "DP-MLP"); err != nil || v.String() != "17.160 ± 2.545" {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := quoted("weights", "banknote", 1, "beta MSE", "none"); err == nil {
		t.Error("a method that is not there")
	}
}

// What is not known has no mark, and no mark leaves the axis.
func TestChart(t *testing.T) {
	picture := chart("a < b", 0.5, 1, []bar{
		{"x & y", value{0.75, 0.1, 3}, value{0.2, 0, 3}, value{0.9, 0, 1}}, {label: "nothing"},
	})
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
	}
	// The legend has two circles and a diamond of its own.
	if circles, diamonds := strings.Count(picture, "<circle"), strings.Count(picture, "#d95f02"); circles != 4 ||
		diamonds != 2 {
		t.Errorf("%d circles and %d diamonds in %s", circles, diamonds, picture)
	}
	if strings.Contains(picture, "nothing") {
		t.Errorf("a bar without marks: %s", picture)
	}
	if !strings.Contains(picture, `<circle cx="220.0"`) || strings.Contains(picture, `cx="-`) {
		t.Errorf("a mark left the axis: %s", picture)
	}
}
