package round

import (
	"context"
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// spans are the spans of a round: one for the whole, and within it one part after the other.
//
//   - dispatch: from its start until a quorum was connected, permitted the run and had it
//   - collect: until enough nodes answered, training included
//   - release: noise, charge and store
//
// Noise and charge are one part because the time to draw exact noise depends on its size (Jin, McMurtry, Rubinstein,
// Ohrimenko: Are We There Yet? Timing and Floating-Point Attacks on Differential Privacy Systems, 2022). No span is
// for one node, whose time reveals its records, or for a fit, which takes hundreds of passes. The zero value does
// nothing.
type spans struct {
	tracer *tracing.Tracer
	within context.Context
	whole  *tracing.Span

	mu   sync.Mutex
	part *tracing.Span
}

// trace starts the span of a round, within the student's span.
func (rs *Rounds) trace(ctx context.Context, e *Execution) {
	if !timed(e.question) || rs.Tracer == nil {
		return
	}
	e.spans.tracer = rs.Tracer
	// Only the span context of the request is used: the round may outlive the request.
	ctx = tracing.Incoming(context.WithoutCancel(ctx))
	e.spans.within, e.spans.whole = rs.Tracer.Begin(ctx, "round",
		tracing.About(e.dataset.Record.Name, e.key.Run, e.key.Number, e.kind())...)
	e.spans.enter("dispatch")
}

// enter ends the current part and starts the next.
func (s *spans) enter(part string) {
	if s.whole == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part.End("")
	_, s.part = s.tracer.Begin(s.within, part)
}

// end ends all spans. It records only the kind of an error, whose text may come from a node.
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
