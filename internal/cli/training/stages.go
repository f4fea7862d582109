package training

import (
	"context"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
)

type stageFlags struct {
	resultFlags
	later  run.LaterOptions
	config string
}

func newStageFlags(c *cobra.Command) *stageFlags {
	l, f := &stageFlags{}, c.Flags()
	l.add(c, "")
	f.StringVar(&l.later.From, "from", "", "output `folder` of the finished run")
	f.StringVar(&l.later.Run, "run", "",
		"run.yaml `file` with new options for the stages (default: the run's own)")
	f.StringVar(&l.config, "config", "",
		"a student's or worker's YAML `file` for a running cluster: the aggregator's address, the dataset "+
			"and the certificate (default: the local run's own cluster)")
	f.StringVar(&l.later.Name, "name", "",
		"name of the stage's run in the ledger (default: the run's name with the stage's)")
	f.Float64Var(&l.later.Epsilon, "epsilon", 0,
		"maximum that the stage may spend of the dataset's remaining budget; not for free stages")
	f.Float64Var(&l.later.Delta, "delta", 0, "delta of that budget (default: the run's)")
	return l
}

func (l *stageFlags) check() error {
	switch {
	case l.later.From == "":
		return cli.Misuse("--from: give the output folder of a finished run")
	case l.out == "":
		return cli.Misuse("--out: give a folder for the results")
	case !(l.later.Epsilon >= 0 && l.later.Delta >= 0) || math.IsInf(l.later.Epsilon, 1) || l.later.Delta >= 1:
		return cli.Misuse("--epsilon %v, --delta %v: give an epsilon above 0 and a delta below 1, or leave them out",
			l.later.Epsilon, l.later.Delta)
	}
	if from, err := filepath.Abs(l.later.From); err == nil {
		if out, err := filepath.Abs(l.out); err == nil && from == out {
			return cli.Misuse("--out: give another folder than --from; the finished run is not changed")
		}
	}
	return nil
}

func postCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "post --from DIR --stage pgb|drs|pgb,drs --out DIR [--epsilon E] [flags]",
		Short: "boost or reject rows of a finished run",
	}
	l := newStageFlags(c)
	stage := c.Flags().String("stage", "", "pgb, drs (free) or pgb,drs")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *stage == "" {
			return cli.Misuse("--stage: use pgb, drs or pgb,drs")
		}
		for _, s := range strings.Split(*stage, ",") {
			l.later.Post = append(l.later.Post, strings.TrimSpace(s))
		}
		return l.follow(c.Context())
	}
	return c
}

func weightsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "weights --from DIR --method METHOD --out DIR [--epsilon E] [flags]",
		Short: "weight the rows of a finished run, closer to the real rows",
	}
	l := newStageFlags(c)
	c.Flags().StringVar(&l.later.Weights, "method", "", "discriminator (free), logreg-noised, logreg-debiased or "+
		"dp-mlp; logreg and mlp are NOT PRIVATE, for comparison")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if l.later.Weights == "" || l.later.Weights == "none" {
			return cli.Misuse("--method: use discriminator, logreg-noised, logreg-debiased or dp-mlp")
		}
		return l.follow(c.Context())
	}
	return c
}

// follow runs the stage on the local run's cluster, or on a running one.
func (l *stageFlags) follow(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	later, err := run.NewLater(l.later)
	if err != nil {
		return err
	}
	if err := ownFolder(l.out); err != nil {
		return err
	}
	l.from, l.free = l.later.From, later.Free()
	err = l.execute(func(log *zap.Logger, watch func(run.Status)) (*results.Result, error) {
		if l.config == "" || later.Free() {
			return local.RunLater(ctx, later, l.later.From, local.Options{Out: l.out, Log: log, Watch: watch})
		}
		config, err := student.LoadConnection(l.config)
		if err != nil {
			return nil, err
		}
		client, err := student.Dial(config, log)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return later.Execute(ctx, run.Options{
			Client: client, Dataset: config.Dataset, Out: l.out, Log: log, Watch: watch,
		})
	})
	return cli.Interrupted(ctx, err, goesOn)
}
