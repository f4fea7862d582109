package round

import (
	"context"
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// spans are those of a round: one of all of it, and within it one part after the other.
//
//   - dispatch: from its begin until a quorum was connected, permitted the run and had it
//   - collect: until enough nodes answered, training included
//   - release: noise, charge and store
//
// Noise and charge are one part because how long exact noise takes to draw depends on how
// large it is (Jin, McMurtry, Rubinstein, Ohrimenko: Are We There Yet? Timing and
// Floating-Point Attacks on Differential Privacy Systems, 2022). There is none of one node:
// its time tells of its records; and none of fits, which take hundreds of passes. The zero value
// does nothing.
type spans struct {
	tracer *tracing.Tracer
	within context.Context
	whole  *tracing.Span

	mu   sync.Mutex
	part *tracing.Span
}

// trace begins the span of a round, within that of the student who asked.
func (rs *Rounds) trace(ctx context.Context, e *Execution) {
	if !timed(e.question) || rs.Tracer == nil {
		return
	}
	e.spans.tracer = rs.Tracer
	// Of the request only what it says of spans: the round may outlive it.
	ctx = tracing.Incoming(context.WithoutCancel(ctx))
	e.spans.within, e.spans.whole = rs.Tracer.Begin(ctx, "round",
		tracing.About(e.dataset.Record.Name, e.key.Run, e.key.Number, e.kind())...)
	e.spans.enter("dispatch")
}

// enter ends the part before and begins the next.
func (s *spans) enter(part string) {
	if s.whole == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.End("")
	_, s.part = s.tracer.Begin(s.within, part)
}

// end ends all of it. Of an error there is its kind: its words may be a node's.
func (s *spans) end(release *conclavev1.Release, err error) {
	if s.whole == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := ""
	if err != nil {
		failed = fault.Reason(err)
	} else {
		s.whole.Note(tracing.Teachers(release.GetTeachers()))
	}
	s.part.End(failed)
	s.whole.End(failed)
}
