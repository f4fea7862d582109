// Package progress shows people how a run stands: a bar with round, epsilon
// spent, rate and time left on a terminal, plain lines elsewhere.
//
// Start with [New]. It shows what it is told and measures only time.
package progress

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/conclave-dp/conclave/internal/run"
)

// Display shows the progress of one run.
type Display struct {
	mu     sync.Mutex
	out    io.Writer
	bars   *mpb.Progress
	bar    *mpb.Bar
	status run.Status
	// text stands behind the bar. The bar's own goroutine reads it while Update
	// may be waiting for that goroutine, so that mu must not guard it.
	text atomic.Pointer[string]
	// first is the round of the first status and started its time: a run that
	// goes on from a checkpoint did not do its earlier rounds now.
	first   int
	started time.Time
	// shown is when the last status came. How long a run is halted says nothing about its
	// rate: started moves on by the time between such a status and the next.
	shown time.Time
	// printed is when the last plain line was written, waiting what it said.
	printed time.Time
	waiting string
}

const plainEvery = 5 * time.Second

// New shows progress on f.
func New(f *os.File) *Display {
	if term.IsTerminal(int(f.Fd())) {
		return newBar(f)
	}
	return &Display{out: f}
}

// refresh is the pause between two pictures of the bar.
const refresh = 150 * time.Millisecond

func newBar(out io.Writer, options ...mpb.ContainerOption) *Display {
	all := []mpb.ContainerOption{mpb.WithOutput(out), mpb.WithWidth(40), mpb.WithRefreshRate(refresh)}
	return &Display{out: out, bars: mpb.New(append(all, options...)...)}
}

// Update shows a new status.
func (d *Display) Update(s run.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.status.Halted {
		d.started = d.started.Add(now.Sub(d.shown))
	}
	d.shown = now
	if d.started.IsZero() || of(s) != of(d.status) {
		d.begin(s)
	}
	advanced := s.Round - d.status.Round
	d.status = s
	if d.bars == nil {
		d.plain()
		return
	}
	text := " " + d.line()
	d.text.Store(&text)
	if d.bar == nil {
		d.bar = d.bars.AddBar(int64(s.Rounds),
			mpb.PrependDecorators(decor.Name(of(s)+" "), decor.CountersNoUnit("%d/%d")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return *d.text.Load() })))
	}
	if advanced > 0 {
		d.bar.IncrBy(advanced)
	}
}

// begin starts counting anew: a run's training, and each stage after it, have a bar and a
// rate of their own.
func (d *Display) begin(s run.Status) {
	if d.bar != nil && !d.bar.Completed() {
		d.bar.Abort(false)
	}
	d.bar, d.first, d.started, d.printed = nil, s.Round, time.Now(), time.Time{}
	d.status.Round = 0
}

// Close ends the display.
func (d *Display) Close() {
	if d.bars == nil {
		return
	}
	d.mu.Lock()
	bar := d.bar
	d.mu.Unlock()
	if bar != nil && !bar.Completed() {
		bar.Abort(false)
	}
	d.bars.Wait()
}

// of is what is counted.
func of(s run.Status) string { return cmp.Or(s.Of, "round") }

// plain writes a line at the start, the end, every few seconds, and when what
// the run waits for changes.
func (d *Display) plain() {
	now := time.Now()
	last := d.status.Round == d.status.Rounds
	if !last && d.waiting == d.status.Waiting && now.Sub(d.printed) < plainEvery {
		return
	}
	d.printed, d.waiting = now, d.status.Waiting
	fmt.Fprintf(d.out, "%s %d/%d, %s\n", of(d.status), d.status.Round, d.status.Rounds, d.line())
}

func (d *Display) line() string {
	s := d.status
	parts := []string{fmt.Sprintf("epsilon %.3f of %g", s.EpsilonSpent, s.Epsilon)}
	if done := s.Round - d.first; done > 0 {
		went := time.Since(d.started)
		if s.Halted {
			went = d.shown.Sub(d.started)
		}
		each := max(went/time.Duration(done), 1)
		parts = append(parts, fmt.Sprintf("%.1f %ss/s", float64(time.Second)/float64(each), of(s)))
		if left := each * time.Duration(s.Rounds-s.Round); left > 0 {
			parts = append(parts, left.Round(time.Second).String()+" left")
		}
	}
	if s.Waiting != "" {
		parts = append(parts, s.Waiting)
	}
	if s.Part != "" {
		parts = append(parts, s.Part)
	}
	return strings.Join(parts, ", ")
}
