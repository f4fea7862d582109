package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// quality repeats one run at several epsilons, the shipped example or a user's own. A run that
// scores no better than its coin flips has learned nothing.
func quality() *experiment {
	var path string
	var epsilons []float64
	return &experiment{
		name: "quality", short: "one run.yaml, the example's or your own, at several epsilons", coin: true, seeds: 3,
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&path, "run", "",
				"run.yaml `file` to repeat; it must name test rows (default: the example)")
			c.Flags().Float64SliceVar(&epsilons, "epsilon", []float64{1, 3, 10}, "comma-separated epsilons")
		},
		groups: func() ([]group, error) { return qualityGroups(path, epsilons) },
	}
}

func qualityGroups(path string, epsilons []float64) (all []group, err error) {
	worth := &measure{} // by the run itself, on the test rows that it names
	for _, m := range classify.Models() {
		worth.names = append(worth.names, m.Name(), m.Name()+", "+figures.RealRows)
	}
	for _, epsilon := range epsilons {
		if !(epsilon > 0) {
			return nil, fmt.Errorf("--epsilon %v: use numbers above 0", epsilon)
		}
		all = append(all, group{
			name: fmt.Sprintf("epsilon-%g", epsilon), epsilon: epsilon, worth: worth, cases: []runCase{{name: "run"}},
			runs: func(ctx context.Context, a *attempt, o *figures.Line) (*table, *results.Result, error) {
				result, err := a.repeat(ctx, path, epsilon)
				if err != nil {
					return nil, result, err
				}
				o.Figures, err = aurocs(result)
				return nil, result, err
			},
		})
	}
	return all, nil
}

// repeat runs a run.yaml, the example's without a path, with another epsilon and seed.
func (a *attempt) repeat(ctx context.Context, path string, epsilon float64) (*results.Result, error) {
	if path == "" {
		if err := os.CopyFS(a.dir, flchain.Files); err != nil {
			return nil, err
		}
		path = filepath.Join(a.dir, "run.yaml")
	}
	spec, err := runfile.Load(path)
	if err != nil {
		return nil, err
	}
	spec.Privacy.Epsilon, spec.Seed = epsilon, uint64(a.seed)
	spec.Evaluate.Models = nil // the yardsticks
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return a.execute(ctx, spec, local.Options{})
}

// aurocs are the figures of a run's own evaluation, of synthetic and of real rows.
func aurocs(result *results.Result) (map[string]float64, error) {
	if len(result.Utility) == 0 {
		return nil, errors.New("the run names no test rows; set evaluate.test")
	}
	areas := map[string]float64{}
	for _, u := range result.Utility {
		if u.SyntheticAUROC == nil {
			return nil, errors.New("the run is one of images; name one of a table")
		}
		areas[u.Classifier] = *u.SyntheticAUROC
		if u.RealAUROC != nil {
			areas[u.Classifier+", "+figures.RealRows] = *u.RealAUROC
		}
	}
	return areas, nil
}
