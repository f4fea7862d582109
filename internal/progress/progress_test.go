package progress

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vbauerster/mpb/v8"
	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plainDisplay shows progress on a file, which is no terminal, and returns what
// was written.
func plainDisplay(t *testing.T) (*Display, func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	testkit.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return New(f), func() string {
		raw := testkit.Read(t, f.Name())
		return string(raw)
	}
}

func TestPlainLinesOffATerminal(t *testing.T) {
	d, text := plainDisplay(t)
	const quorum = "waiting for a quorum: 5 of 9 teachers connected"
	d.Update(run.Status{Rounds: 4, Epsilon: 1})
	d.Update(run.Status{Rounds: 4, Epsilon: 1, Waiting: quorum})
	d.Update(run.Status{Rounds: 4, Epsilon: 1, Waiting: quorum}) // nothing new
	d.Update(run.Status{Rounds: 4, Epsilon: 1})
	for round := 1; round <= 3; round++ { // too soon after the last line
		d.Update(run.Status{Round: round, Rounds: 4, Epsilon: 1, EpsilonSpent: 0.2 * float64(round)})
	}
	d.Update(run.Status{Round: 4, Rounds: 4, Epsilon: 1, EpsilonSpent: 0.98765})
	d.Close()
	lines := strings.Split(strings.TrimSuffix(text(), "\n"), "\n")
	want := []string{
		"round 0/4, epsilon 0.000 of 1",
		"round 0/4, epsilon 0.000 of 1, " + quorum,
		"round 0/4, epsilon 0.000 of 1",
		"round 4/4, epsilon 0.988 of 1, ",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), text())
	}
	for i, w := range want[:3] {
		if lines[i] != w {
			t.Errorf("line %d: %q, want %q", i+1, lines[i], w)
		}
	}
	if !strings.HasPrefix(lines[3], want[3]) || !strings.HasSuffix(lines[3], " rounds/s") {
		t.Errorf("last line %q; want one that begins %q and ends with the rate", lines[3], want[3])
	}
	if strings.ContainsAny(text(), "\r\x1b") {
		t.Errorf("control characters off a terminal: %q", text())
	}
}

func TestALineEveryFewSeconds(t *testing.T) {
	d, text := plainDisplay(t)
	d.Update(run.Status{Rounds: 100, Epsilon: 1})
	d.printed = d.printed.Add(-plainEvery)
	d.Update(run.Status{Round: 1, Rounds: 100, Epsilon: 1})
	d.Update(run.Status{Round: 2, Rounds: 100, Epsilon: 1})
	if got := strings.Count(text(), "\n"); got != 2 {
		t.Errorf("%d lines, want 2:\n%s", got, text())
	}
}

// A run that goes on from round 90 of 100 has ten rounds to do, and its rate is
// that of the rounds it did now.
func TestTheRateOfAResumedRunIsThatOfItsOwnRounds(t *testing.T) {
	d, _ := plainDisplay(t)
	d.Update(run.Status{Round: 90, Rounds: 100, Epsilon: 1})
	d.started = time.Now().Add(-10 * time.Second)
	d.Update(run.Status{Round: 95, Rounds: 100, Epsilon: 1, EpsilonSpent: 0.9})
	if got, want := d.line(), "epsilon 0.900 of 1, 0.5 rounds/s, 10s left"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// A site that takes an hour to approve a run does not make its rounds slow.
func TestBeingHaltedIsNoPartOfTheRate(t *testing.T) {
	d, _ := plainDisplay(t)
	past := func(by time.Duration) { d.started, d.shown = d.started.Add(-by), d.shown.Add(-by) }
	d.Update(run.Status{Rounds: 100, Epsilon: 1})
	past(10 * time.Second)
	d.Update(run.Status{Round: 5, Rounds: 100, Epsilon: 1})
	d.Update(run.Status{Round: 5, Rounds: 100, Epsilon: 1, Waiting: "north has to approve", Halted: true})
	past(time.Hour)
	const want = "epsilon 0.000 of 1, 0.5 rounds/s, 3m10s left"
	if got := d.line(); got != want+", north has to approve" {
		t.Errorf("line %q while it waits, want %q", got, want)
	}
	d.Update(run.Status{Round: 5, Rounds: 100, Epsilon: 1, Waiting: "north has to approve", Halted: true})
	past(10 * time.Second)
	d.Update(run.Status{Round: 5, Rounds: 100, Epsilon: 1})
	if got := d.line(); got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	// What goes on without somebody takes its time.
	d.Update(run.Status{Round: 5, Rounds: 100, Epsilon: 1, Waiting: "continuing without north"})
	past(10 * time.Second)
	d.Update(run.Status{Round: 10, Rounds: 100, Epsilon: 1})
	if got, want := d.line(), "epsilon 0.000 of 1, 0.5 rounds/s, 3m0s left"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// A stage after the training counts from 0 again, with a rate of its own.
func TestStagesAreCountedAnew(t *testing.T) {
	d, text := plainDisplay(t)
	d.Update(run.Status{Round: 16, Rounds: 16, Epsilon: 1, EpsilonSpent: 0.8})
	d.started = time.Now().Add(-time.Hour)
	d.Update(run.Status{Of: "selection", Round: 1, Rounds: 400, Epsilon: 1, EpsilonSpent: 0.8})
	d.started = time.Now().Add(-time.Second)
	d.Update(run.Status{Of: "selection", Round: 400, Rounds: 400, Epsilon: 1, EpsilonSpent: 1})
	lines := strings.Split(strings.TrimSuffix(text(), "\n"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "round 16/16") ||
		lines[1] != "selection 1/400, epsilon 0.800 of 1" ||
		!strings.HasPrefix(lines[2], "selection 400/400, epsilon 1.000 of 1, 39") {
		t.Errorf("%q", lines)
	}
	var out screen
	bar := newBar(&out, mpb.WithAutoRefresh(), mpb.WithWidth(200))
	for _, s := range []run.Status{{Round: 3, Rounds: 5}, {Of: "selection", Rounds: 400},
		{Of: "selection", Round: 400, Rounds: 400}} {
		bar.Update(s)
	}
	bar.Close()
	if !strings.Contains(out.text.String(), "400/400") {
		t.Errorf("no bar of the stage in %q", out.text.String())
	}
}

// screen is a terminal that only remembers.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// The bar draws itself while the run goes on; neither may wait for the other.
func TestTheBarNeverHoldsUpTheRun(t *testing.T) {
	var out screen
	d := newBar(&out, mpb.WithAutoRefresh(), mpb.WithWidth(200))
	const rounds = 300_000 // without a pause: many pictures meet an update
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := range rounds + 1 {
			d.Update(run.Status{Round: round, Rounds: rounds, Epsilon: 1, EpsilonSpent: float64(round) / rounds})
		}
		d.Close()
	}()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		t.Fatal("the bar and the run wait for each other")
	}
	text := out.text.String()
	for _, want := range []string{"round ", "300000/300000", "epsilon 1.000 of 1", "rounds/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the bar never showed %q", want)
		}
	}
}

func TestABarIsClosedAtAnyTime(t *testing.T) {
	for _, rounds := range []int{-1, 0, 3} {
		d := newBar(&screen{}, mpb.WithAutoRefresh())
		for round := range rounds + 1 {
			d.Update(run.Status{Round: round, Rounds: 5, Epsilon: 1})
		}
		d.Close()
	}
}
