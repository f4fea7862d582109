package evaluate

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
)

// Input holds the tables of an evaluation. Weights of the rows are those of their table
// ([partition.Table.Weights]); all figures of synthetic rows use them.
type Input struct {
	// Synthetic are the rows to evaluate. Test are real rows that they were not made from.
	Synthetic, Test *partition.Table
	// Train are the real rows they were made from. CoinFlips are rows of the same run with its votes replaced
	// by chance. Both may be nil.
	Train, CoinFlips *partition.Table
	// Models names the classifiers; none means all twelve.
	Models []string
}

const evaluateSeed = 1

// Evaluate computes all figures that these rows allow. The same rows give the same figures. Notes name the
// figures that are left out.
//
// It fails for tables without rows or with different columns, for an unknown model, for unusable weights
// (ErrWeights), and when ctx ends. NOT PRIVATE.
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
	e.Weights = SummarizeWeights(in.Synthetic.Weights())
	for _, part := range e.parts(ctx, in, in.Synthetic.Weights()) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		notes, err := part()
		if err != nil {
			return nil, fmt.Errorf("evaluate: %w", err)
		}
		e.Notes = append(e.Notes, notes...)
	}
	return e, nil
}

// parts measure the figures, in the order of their notes. weight is the weight of the synthetic rows.
func (e *Evaluation) parts(ctx context.Context, in Input, weight []float64) []func() (notes []string, err error) {
	parts := []func() (notes []string, err error){
		func() (notes []string, err error) {
			e.Columns, notes, err = CompareColumns(in.Test, in.Synthetic, weight)
			return notes, err
		},
		func() (notes []string, err error) {
			e.Pairs, notes, err = ComparePairs(in.Test, in.Synthetic, weight, evaluateSeed)
			return notes, err
		},
		func() (notes []string, err error) {
			e.Marginals, notes, err = CompareMarginals(in.Test, in.Synthetic, weight,
				MarginalOptions{Seed: evaluateSeed})
			return notes, err
		},
		func() (notes []string, err error) {
			e.Propensity, notes, err = ComparePropensity(in.Test, in.Synthetic, weight)
			return notes, err
		},
		func() (notes []string, err error) {
			e.Regression, notes, err = CompareRegressions(in.Train, in.Test, in.Synthetic, weight, nil)
			return notes, err
		},
		func() ([]string, error) { return coarseNotes(in.Test.Schema()), nil },
		func() ([]string, error) { return e.utility(ctx, in) },
		func() (notes []string, err error) {
			if in.Train == nil {
				return []string{"No real training rows were given: there is no ceiling (setting A), no ranking " +
					"agreement of models and no closeness."}, nil
			}
			if len(e.Utility) > 0 {
				e.RankingAgreement, notes = RankingAgreement(e.Utility)
			}
			return notes, nil
		},
		func() (notes []string, err error) {
			e.ImportanceAgreement, notes, err = CompareImportance(in.Test, in.Synthetic, weight)
			return notes, err
		},
	}
	if in.Train != nil {
		parts = append(parts, func() (notes []string, err error) {
			e.Closeness, notes, err = CompareCloseness(in.Train, in.Test, in.Synthetic, weight,
				ClosenessOptions{Seed: evaluateSeed})
			return notes, err
		})
	}
	return parts
}

// coarse puts rare categories of the real rows together, those of the training if there are any.
func (in Input) coarse() *coarse {
	if in.Train != nil {
		return newCoarse(in.Train)
	}
	return newCoarse(in.Test)
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
