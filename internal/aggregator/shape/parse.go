// Package shape has the shapes of questions, which is all that an aggregator knows about them: how to read and add up
// answers, and how to draw the release with the mechanism that the run's plan pays for.
package shape

import (
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/reducer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Parser returns a parser of round questions. Kinds with a reducer are answered by it.
func Parser(reducers reducer.Registry) round.Parse {
	return func(r *conclavev1.Round, s *spec.Spec, cached func(uint64) (round.Sums, bool)) (round.Question, error) {
		planned, err := s.Pays(r.GetKind(), r.GetPlanned())
		if err != nil {
			return nil, err
		}
		if len(r.GetServes()) > 0 {
			return nil, fault.Invalidf("round %d of run %q sets serves; leave it out, because only aggregators may "+
				"set it", r.GetNumber(), r.GetRun())
		}
		reduces, ok := reducers[r.GetKind()]
		if ok && s.Masked != nil {
			return nil, fault.Refusedf("run %q is masked, but %s needs several passes with exact sums; ask without "+
				"masks",
				r.GetRun(), r.GetKind())
		}
		if s.Masked != nil {
			return newMasked(r, planned, s)
		}
		if ok {
			return newReduced(reduces, r, planned, s)
		}
		selects := r.GetSelection()
		switch asked := r.GetShape().(type) {
		case *conclavev1.Round_Votes:
			if selects != nil {
				return nil, fault.Invalidf("round %d of run %q selects by votes; ask for a sum to select by",
					r.GetNumber(), r.GetRun())
			}
			return newVotes(asked.Votes, planned, s)
		case *conclavev1.Round_Sum:
			if selects != nil {
				return newSelecting(asked.Sum, selects, r.GetNumber(), planned, s)
			}
			return newSum(asked.Sum, planned, s)
		}
		if selects == nil {
			return nil, fault.Invalidf("round %d of run %q is empty; set votes, sum or selection",
				r.GetNumber(), r.GetRun())
		}
		sums, ok := cached(selects.GetRound())
		if !ok {
			return nil, round.ErrNotCached(r.GetRun(), selects.GetRound())
		}
		// Nodes do not see this selection: their sites charged the entry of the sums for all of its uses.
		if asked := int64(r.GetPlanned()); asked != int64(sums.Planned) {
			return nil, fault.Refusedf("round %d of run %q selects under entry %d of the plan, but its sums were "+
				"charged under entry %d; use that entry", r.GetNumber(), r.GetRun(), asked,
				sums.Planned)
		}
		selection, err := newSelection(selects, len(sums.Sums), sums.Bound, planned, s)
		if err != nil {
			return nil, err
		}
		return &cachedSelection{selection, sums}, nil
	}
}
