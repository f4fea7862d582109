package ledger

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// VerifyStrict is [Verify] for a ledger from other hands. It refuses, in
// addition, what no aggregator writes even where hashes and budgets hold: words
// it does not use, rounds that do not count from 0 in order, and queries and
// answers that are not those of the events.
func VerifyStrict(r io.Reader) (Verification, error) { return verifyLedger(r, true) }

// neighbourings are the relations that datasets are opened with.
var neighbourings = []string{"add-or-remove-one-unit"}

func (e Entry) openedAsWritten() error {
	if slices.Contains(neighbourings, e.Neighbouring) {
		return nil
	}
	return privacy.FieldErrorf("neighbouring", "is %q; an aggregator writes %s", e.Neighbouring, strings.Join(neighbourings, " or "))
}

// purposes are those of releases, with the mechanisms that serve them.
var purposes = map[string][]privacy.Kind{
	"class-share": {privacy.Laplace},
	"labels":      {privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax},
	"gradients":   {privacy.GNMax, privacy.ConfidentGNMax, privacy.LNMax, privacy.Gaussian},
	// Of a discriminator on a Poisson sample, all its entries in one sum.
	"discriminator": {privacy.SubsampledGaussian},
	// The sum of features of all records.
	"embedding": {privacy.Gaussian},
	// One of several discriminators, by sums of their scores of all records.
	"selection": {privacy.Exponential},
	// The coefficients that rows are weighted by, all of them in one vector.
	"weights": {privacy.Gaussian, privacy.Laplace},
}

// isSum says that an event is noise on one vector, whatever its number of entries.
func isSum(e privacy.Event) bool {
	return e.Kind == privacy.Gaussian || e.Kind == privacy.SubsampledGaussian
}

// releasedAsWritten checks a release against what an aggregator writes after so
// many releases of the run: each event is a mechanism of the purpose, and the queries
// and answers are those that the events paid for.
func (e Entry) releasedAsWritten(before int) error {
	if *e.Round != uint64(before) {
		return fmt.Errorf("round %d of run %q follows %d rounds; they count from 0 without gaps", *e.Round, e.Run, before)
	}
	kinds, known := purposes[e.Purpose]
	if !known {
		return privacy.FieldErrorf("purpose", "is %q; an aggregator writes %s", e.Purpose, strings.Join(slices.Sorted(maps.Keys(purposes)), " or "))
	}
	// A Gaussian sum is one release of as many answers as it has entries.
	sumOfPurpose := func(event privacy.Event) bool { return isSum(event) && slices.Contains(kinds, event.Kind) }
	if slices.ContainsFunc(e.Events, sumOfPurpose) {
		if len(e.Events) != 1 || e.Events[0].Count != 1 || e.Queries < 1 || e.Answered != e.Queries {
			return fmt.Errorf("%d of %d entries of %d noisy sums, in %d events; a release holds one sum, with all its entries",
				e.Answered, e.Queries, e.Events[0].Count, len(e.Events))
		}
		return nil
	}
	// A selection is a release of its own, and a vector of pure noise one answer.
	if e.Purpose == "selection" || e.Purpose == "weights" {
		if len(e.Events) != 1 || e.Events[0].Count != 1 && slices.Contains(kinds, e.Events[0].Kind) {
			return fmt.Errorf("%d of %d queries in %d events; a release holds one selection, or one vector of coefficients", e.Answered, e.Queries, len(e.Events))
		}
	}
	// Counted down, so that no sum can overflow.
	queries, answered := e.Queries, e.Answered
	for _, event := range e.Events {
		if !slices.Contains(kinds, event.Kind) {
			return fmt.Errorf("a %s event does not belong to purpose %q", event.Kind, e.Purpose)
		}
		if event.Kind == privacy.ConfidentGNMax {
			queries, answered = queries-event.Asked, answered-event.Answered
		} else {
			queries, answered = queries-event.Count, answered-event.Count
		}
		if queries < 0 || answered < 0 {
			break
		}
	}
	if queries != 0 || answered != 0 {
		return fmt.Errorf("%d of %d queries answered is not what the events paid for", e.Answered, e.Queries)
	}
	return nil
}
