package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
)

// RunLater executes stages that follow a finished local run in the folder from, on that run's own cluster: the
// same ledger continues, and the dataset's budget pays. Their files go to o.Out.
func RunLater(ctx context.Context, later *run.Later, from string, o Options) (*results.Result, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if err := checkUnfinished(o.Out); err != nil {
		return nil, err
	}
	first, state := later.First, filepath.Join(from, "state")
	held, err := heldShare(state, first.Spec, first.Schema, false)
	if err != nil {
		return nil, err
	}
	if held > 0 {
		rows, err := divided(first.Spec, first.Schema, partsOf(first.Spec, first.Schema, held), held)
		switch {
		case err == nil:
			later.CompareWith(rows)
		case later.Free(): // it reads no records
			o.warn(fmt.Sprintf("The rows are not compared with the run's hold-out: %v.", err))
		default:
			return nil, err
		}
	}
	if later.Free() {
		return later.Execute(ctx, run.Options{Out: o.Out, Log: o.Log, Watch: o.Watch})
	}
	if _, err := os.Stat(filepath.Join(state, "etcd")); err != nil {
		return nil, fmt.Errorf("%s has no cluster of a local run (%w); for another cluster give the student's "+
			"configuration with --config", from, err)
	}
	configs, err := nodeConfigs(first.Spec, first.Schema, state, held)
	if err != nil {
		return nil, err
	}
	if err := checkStages(configs, later.Job, later.Spec.Path); err != nil {
		return nil, err
	}
	sites, err := readSites(configs, o.warn)
	if err != nil {
		return nil, err
	}
	o.Coin = later.Coin()
	return cluster(ctx, first, later, sites, state, o)
}
