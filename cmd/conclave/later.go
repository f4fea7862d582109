package main

import (
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/student"
)

// laterFlags are the flags of stages that follow a finished run.
type laterFlags struct {
	later         run.LaterOptions
	config        string
	out, logLevel string
	format        *string
}

func (l *laterFlags) register(f *flag.FlagSet) {
	f.StringVar(&l.later.From, "from", "", "output folder of the finished run")
	f.StringVar(&l.later.Run, "run", "", "its run.yaml, with the options of the stages as they are now; where it was, if this is left out")
	f.StringVar(&l.config, "config", "", "a student's or worker's YAML file, for a cluster that is running: where the aggregator is, the dataset, and the certificate; the local run's own cluster, if this is left out")
	f.StringVar(&l.out, "out", "", "folder for the results (or set CONCLAVE_OUT)")
	f.StringVar(&l.later.Name, "name", "", "name of the stage's run in the ledger; by default that of the run with the stage's behind it")
	f.Float64Var(&l.later.Epsilon, "epsilon", 0, "what the stage may spend of what is left of the dataset's budget; none for stages that are free")
	f.Float64Var(&l.later.Delta, "delta", 0, "its delta; that of the run, if this is left out")
	f.StringVar(&l.logLevel, "log-level", "error", "what the roles log to standard error: debug, info, warn or error (or set CONCLAVE_LOG_LEVEL)")
	l.format = formatFlag(f)
}

func (l *laterFlags) check(f *flag.FlagSet) error {
	if err := fromEnvironment(f, "out", "log-level"); err != nil {
		return err
	}
	switch {
	case l.later.From == "":
		return misuse(f, "--from: name the output folder of a finished run")
	case l.out == "":
		return misuse(f, "--out: name a folder for the results")
	case !(l.later.Epsilon >= 0 && l.later.Delta >= 0) || math.IsInf(l.later.Epsilon, 1) || l.later.Delta >= 1:
		return misuse(f, "--epsilon %v, --delta %v: give an epsilon above 0 and a delta below 1, or leave them out", l.later.Epsilon, l.later.Delta)
	}
	if from, err := filepath.Abs(l.later.From); err == nil {
		if out, err := filepath.Abs(l.out); err == nil && from == out {
			return misuse(f, "--out: name another folder than --from; the finished run stays as it is")
		}
	}
	switch l.logLevel {
	case "debug", "info", "warn", "error":
		return nil
	}
	return misuse(f, "--log-level %q: use debug, info, warn or error", l.logLevel)
}

func post(ctx context.Context, args []string) error {
	f := flags("post", "post --from DIR --stage pgb|drs|pgb,drs --out DIR [--epsilon E] [flags]")
	var l laterFlags
	stage := f.String("stage", "", "pgb, drs (free) or pgb,drs")
	l.register(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *stage == "" {
		return misuse(f, "--stage: use pgb, drs or pgb,drs")
	}
	if err := l.check(f); err != nil {
		return err
	}
	for _, s := range strings.Split(*stage, ",") {
		l.later.Post = append(l.later.Post, strings.TrimSpace(s))
	}
	return l.execute(ctx)
}

func weights(ctx context.Context, args []string) error {
	f := flags("weights", "weights --from DIR --method METHOD --out DIR [--epsilon E] [flags]")
	var l laterFlags
	f.StringVar(&l.later.Weights, "method", "", "discriminator (free), logreg-noised, logreg-debiased or dp-mlp; logreg and mlp are NOT PRIVATE, for comparison")
	l.register(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if l.later.Weights == "" || l.later.Weights == "none" {
		return misuse(f, "--method: use discriminator, logreg-noised, logreg-debiased or dp-mlp")
	}
	if err := l.check(f); err != nil {
		return err
	}
	return l.execute(ctx)
}

// execute runs the stage on the local run's cluster or on one that is running.
func (l *laterFlags) execute(ctx context.Context) error {
	later, err := run.NewLater(l.later)
	if err != nil {
		return err
	}
	log, err := logging.New(logging.Config{Level: l.logLevel, Format: logging.Auto})
	if err != nil {
		return err
	}
	if err := ownFolder(l.out); err != nil {
		return err
	}
	display := progress.New(os.Stderr)
	defer display.Close()
	var result *run.Result
	if l.config == "" || later.Free() {
		result, err = local.RunLater(ctx, later, l.later.From, local.Options{Out: l.out, Log: log, Watch: display.Update})
	} else {
		config, configErr := student.LoadConnection(l.config)
		if configErr != nil {
			return configErr
		}
		client, dialErr := student.Dial(config, log)
		if dialErr != nil {
			return dialErr
		}
		defer client.Close()
		result, err = later.Execute(ctx, run.Options{Client: client, Dataset: config.Dataset, Out: l.out, Log: log, Watch: display.Update})
	}
	display.Close()
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; the same command goes on where this one stopped")
	}
	if err != nil {
		return err
	}
	if *l.format == "json" {
		return printJSON(result)
	}
	show(result)
	return nil
}
