package evaluate

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
)

// Input is what an evaluation compares. Weights of the rows are those of their
// table ([partition.Table.Weights]); all figures of synthetic rows use them.
type Input struct {
	// Synthetic are the rows in question, Test real rows that they were not made from.
	Synthetic, Test *partition.Table
	// Train are the real rows they were made from, CoinFlips rows of the same run
	// with its votes replaced by chance. Both may be nil.
	Train, CoinFlips *partition.Table
	// Models names the classifiers; none means all twelve.
	Models []string
}

const evaluateSeed = 1

// Evaluate measures everything that can be measured of these rows. The same rows
// give the same figures. What cannot be measured is left out and named in Notes.
//
// It fails for tables without rows or of different columns, for an unknown model,
// for weights that cannot be used (ErrWeights), and when ctx ends. NOT PRIVATE.
func Evaluate(ctx context.Context, in Input) (*Evaluation, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	if len(in.Models) == 0 {
		for _, m := range classify.All() {
			in.Models = append(in.Models, m.Name())
		}
	} else if _, err := classify.Named(in.Models...); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	e := &Evaluation{Privacy: NotPrivate, Rows: Rows{Synthetic: in.Synthetic.Len(), Test: in.Test.Len()}}
	if in.Train != nil {
		e.Rows.Train = in.Train.Len()
	}
	e.Weights = SummarizeWeights(in.weight())
	for _, part := range []func(context.Context, Input) error{e.likeness, e.utility, e.agreements, e.closeness} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := part(ctx, in); err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
	}
	return e, nil
}

func (in Input) check() error {
	for _, side := range []struct {
		name   string
		table  *partition.Table
		needed bool
	}{{"synthetic", in.Synthetic, true}, {"test", in.Test, true}, {"real training", in.Train, false},
		{"coin-flip", in.CoinFlips, false}} {
		switch {
		case side.table == nil && !side.needed:
		case side.table == nil || side.table.Len() == 0:
			return fmt.Errorf("there are no %s rows", side.name)
		case in.Test != nil:
			if err := sameColumns(in.Test.Schema(), side.table.Schema()); err != nil {
				return fmt.Errorf("%s rows: %w", side.name, err)
			}
		}
	}
	return nil
}

// weight of the synthetic rows, nil for 1 each.
func (in Input) weight() []float64 { return in.Synthetic.Weights() }

// noted keeps what was measured, and what was said of it.
func (e *Evaluation) noted(notes []string, err error) error {
	e.Notes = append(e.Notes, notes...)
	return err
}

// likeness compares distributions with those of the test rows.
func (e *Evaluation) likeness(_ context.Context, in Input) error {
	var notes []string
	var err error
	e.Columns, notes, err = CompareColumns(in.Test, in.Synthetic, in.weight())
	if err := e.noted(notes, err); err != nil {
		return err
	}
	e.Pairs, notes, err = ComparePairs(in.Test, in.Synthetic, in.weight(), evaluateSeed)
	if err := e.noted(notes, err); err != nil {
		return err
	}
	e.Marginals, notes, err = CompareMarginals(in.Test, in.Synthetic, in.weight(), MarginalOptions{Seed: evaluateSeed})
	if err := e.noted(notes, err); err != nil {
		return err
	}
	e.Propensity, notes, err = ComparePropensity(in.Test, in.Synthetic, in.weight())
	if err := e.noted(notes, err); err != nil {
		return err
	}
	e.Regression, notes, err = CompareRegressions(in.Train, in.Test, in.Synthetic, in.weight(), nil)
	return e.noted(notes, err)
}

// agreements compares the order of models and of columns.
func (e *Evaluation) agreements(_ context.Context, in Input) error {
	if in.Train == nil {
		e.note(
			"No real training rows were given: there is no ceiling (setting A), no ranking agreement of models and " +
				"no closeness.")
	} else if len(e.Utility) > 0 {
		agreement, notes := RankingAgreement(e.Utility)
		e.RankingAgreement = agreement
		e.Notes = append(e.Notes, notes...)
	}
	agreement, notes, err := CompareImportance(in.Test, in.Synthetic, in.weight())
	e.ImportanceAgreement = agreement
	return e.noted(notes, err)
}

// closeness looks for rows that were remembered.
func (e *Evaluation) closeness(_ context.Context, in Input) error {
	if in.Train == nil {
		return nil
	}
	closeness, notes, err := CompareCloseness(in.Train, in.Test, in.Synthetic, in.weight(),
		ClosenessOptions{Seed: evaluateSeed})
	e.Closeness = closeness
	return e.noted(notes, err)
}
