package round

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// gather gets the counts of an execution: one answer from each node, cached sums, or a reducer's result of several
// passes.
func (rs *Rounds) gather(e *Execution) error {
	switch q := e.question.(type) {
	case Masked:
		return rs.gatherMasked(e, q)
	case Selector:
		sums := q.By()
		e.give(sums.Sums, sums.teachers, sums.contributors)
		return nil
	case Reducer:
		var nodes []peer.ID
		changes := 0
		counts, err := q.Reduce(rs.Lifetime.Draining(),
			func(q Question, params []byte, sum *conclavev1.Vector) ([]int64, bool, error) {
				sums, answered, err := rs.pass(e, nodes == nil, q, &conclavev1.Round{
					Run: e.key.Run, Number: e.key.Number, Kind: e.kind(), Planned: uint32(e.planned),
					Params: params, Shape: &conclavev1.Round_Sum{Sum: sum}, Serves: e.digest[:],
				})
				if err != nil {
					return nil, false, err
				}
				changed := nodes != nil && !slices.Equal(nodes, answered)
				if changed {
					changes++
				}
				if changes > mostChanges {
					return nil, false, fault.Unavailablef("round %d of run %q: nodes joined or left in %d of its "+
						"passes; ask again when connections are stable", e.key.Number, e.key.Run, changes)
				}
				nodes = answered
				return sums, changed, nil
			})
		if err != nil {
			return err
		}
		e.give(counts, e.given, nil)
		return nil
	}
	return rs.collect(e)
}

// mostChanges bounds how often the nodes of a multi-pass question may change, since each change may restart it.
const mostChanges = 8

// pass asks all nodes once more for an execution. It returns the sums and the nodes that answered. The student sees
// the progress of the first pass. A node that does not answer a pass is omitted from later ones, which would all wait
// for it.
func (rs *Rounds) pass(e *Execution, told bool, q Question, asked *conclavev1.Round) ([]int64, []peer.ID, error) {
	if e.idleFor(abandonAfter, time.Now()) {
		return nil, nil, fault.Unavailablef("round %d of run %q was abandoned, because no caller waits for "+
			"it", e.key.Number,
			e.key.Run)
	}
	p, err := payload.New(asked)
	if err != nil {
		return nil, nil, err
	}
	in := e.inquiry // all passes share the terms, because they are charged once
	in.question, in.attempt, in.released = q, rs.attempts.Add(1), nil
	if in.parts, err = p.Encode(in.attempt, in.terms, nil); err != nil {
		return nil, nil, err
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
	if err := rs.collect(inner); err != nil {
		return nil, nil, err
	}
	e.give(inner.counts, inner.took(), nil)
	return inner.counts, inner.settle(), nil
}

// settle returns the nodes that answered a pass, in order, and excludes the other asked nodes from later passes.
func (e *Execution) settle() []peer.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outer.mu.Lock()
	defer e.outer.mu.Unlock()
	var nodes []peer.ID
	for id, p := range e.participants.byID {
		switch {
		case p.teachers > 0:
			nodes = append(nodes, id)
		case p.current.state != unsent:
			of := e.outer.participants.of(id)
			of.dropped, of.slow = true, p.current.state == sent
		}
	}
	slices.SortFunc(nodes, func(a, b peer.ID) int { return strings.Compare(a.String(), b.String()) })
	return nodes
}

// dropped reports whether a node did not answer an earlier pass, and whether because it was slow.
func (e *Execution) dropped(id peer.ID) (dropped, slow bool) {
	if e.outer == nil {
		return false, false
	}
	e.outer.mu.Lock()
	defer e.outer.mu.Unlock()
	p := e.outer.participants.byID[id]
	return p != nil && p.dropped, p != nil && p.slow
}
