package round

import (
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// gather gets the counts of an execution: one answer of each node, sums that are cached, or
// what a reducer makes of several passes.
func (rs *Rounds) gather(e *Execution) error {
	switch q := e.question.(type) {
	case Selector:
		sums := q.By()
		e.give(sums.Sums, sums.teachers, sums.contributors)
		return nil
	case Reducer:
		first := true
		counts, err := q.Reduce(rs.Lifetime.Draining(),
			func(q Question, params []byte, sum *conclavev1.Vector) ([]int64, error) {
				told := first
				first = false
				return rs.pass(e, told, q, &conclavev1.Round{
					Run: e.key.Run, Number: e.key.Number, Kind: e.kind(), Planned: uint32(e.planned), Params: params,
					Shape: &conclavev1.Round_Sum{Sum: sum}, Serves: e.digest[:],
				})
			})
		if err != nil {
			return err
		}
		e.give(counts, e.given, nil)
		return nil
	}
	return e.collect(rs.Lifetime)
}

// pass asks all nodes once more in the course of an execution, and returns the sums. The
// student is told how the first one stands: their number is nobody's business.
func (rs *Rounds) pass(e *Execution, told bool, q Question, asked *conclavev1.Round) ([]int64, error) {
	if e.idleFor(abandonAfter, time.Now()) {
		return nil, fault.Unavailablef("round %d of run %q was given up: nobody waits for it", e.key.Number, e.key.Run)
	}
	p, err := payload.New(asked)
	if err != nil {
		return nil, err
	}
	in := e.inquiry // the terms are those of all passes, which are charged once
	in.question, in.attempt, in.released = q, rs.attempts.Add(1), nil
	if in.parts, err = p.Encode(in.attempt, in.terms); err != nil {
		return nil, err
	}
	inner := newExecution(in, e)
	inner.told = told
	e.dataset.register(inner)
	defer func() {
		e.dataset.unregister(inner)
		inner.cancel()
		if err := inner.withdraw(); err != nil {
			rs.Log.Error("withdraw a pass", zap.Error(err))
		}
	}()
	if err := inner.collect(rs.Lifetime); err != nil {
		return nil, err
	}
	e.give(inner.counts, inner.takenPart(), nil)
	return inner.counts, nil
}
