// Package training has the commands that train on this machine, or continue from earlier training: demo, local, post,
// weights and report.
package training

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{demoCommand(), localCommand(), postCommand(), weightsCommand(), reportCommand()}
}

// resultFlags say where results go, and how they and the progress are shown.
type resultFlags struct {
	out              string
	format, logLevel *string
	// from is the folder of the finished run that stages follow; empty for a run.
	from string
	// free marks stages that cost nothing. The run's ledger was closed before them, so it cannot prove their files.
	free bool
}

func (r *resultFlags) add(c *cobra.Command, out string) {
	c.Flags().StringVar(&r.out, "out", out, "`folder` for the results")
	cli.FromEnvironment(c, "out")
	r.format, r.logLevel = cli.Format(c), cli.LogLevel(c, "the roles log")
}

// execute runs work with a progress display, and shows its result.
func (r *resultFlags) execute(work func(*zap.Logger, func(run.Status)) (*results.Result, error)) error {
	log, err := logging.New(logging.Config{Level: *r.logLevel, Format: logging.Auto})
	if err != nil {
		return err
	}
	display := progress.New(os.Stderr)
	result, err := work(log, display.Update)
	display.Close()
	if err != nil {
		log.Debug("failed", zap.Error(err))
		return err
	}
	return r.show(result)
}

// runFlags are the flags of a run on its own local cluster.
type runFlags struct {
	resultFlags
	unregistered bool // for public rows
	votes        *string
}

func newRunFlags(c *cobra.Command, out string) *runFlags {
	r := &runFlags{votes: cli.Choice(c, "votes", "teachers",
		"source of the votes; coin: a baseline that learns from coin flips", "teachers", "coin")}
	r.add(c, out)
	return r
}

func localCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "local (FILE --schema schema.yaml --epsilon E | --run run.yaml) --out DIR [flags]",
		Short: "train on this machine, with a temporary cluster",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Misuse("got %d files: for a table in several files give their folder, or a quoted pattern "+
					"such as 'rows/*.csv'; for several sites write a run.yaml",
					len(args))
			}
			return nil
		},
	}
	path := c.Flags().String("run", "", "a run.yaml `file`, in place of FILE and the flags that describe a run")
	var q quickFlags
	q.add(c)
	r := newRunFlags(c, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		if (*path == "") == (len(args) == 0) {
			return cli.Misuse("give either a file of rows, or a run.yaml with --run")
		}
		if given := q.given(c); *path != "" && len(given) > 0 {
			return cli.Misuse("--run: the run.yaml sets this; leave out %s", strings.Join(given, ", "))
		}
		if r.out == "" {
			return cli.Misuse("--out: give a folder")
		}
		if err := ownFolder(r.out); err != nil {
			return err
		}
		if len(args) > 0 {
			var err error
			if *path, err = q.write(args[0], r.out); err != nil {
				return err
			}
		}
		return cli.Interrupted(c.Context(), r.train(c.Context(), *path), goesOn)
	}
	return c
}

// goesOn says how to continue a run, or a stage after one.
const goesOn = "interrupted; run the same command to continue"

// train runs the training on its own local cluster and shows the result.
func (r *runFlags) train(ctx context.Context, path string) error {
	spec, err := runfile.Load(path)
	if err != nil {
		return err
	}
	return r.execute(func(log *zap.Logger, watch func(run.Status)) (*results.Result, error) {
		o := local.Options{Out: r.out, Coin: *r.votes == "coin", Log: log, Watch: watch, Warn: cli.Warn,
			HoldOut: true}
		if !r.unregistered {
			if o.Register, err = local.RegisterDir(); err != nil {
				cli.Warn(err.Error())
			}
		}
		return local.Run(ctx, spec, o)
	})
}

// ownFolder refuses an output folder with unrelated files, which the results could overwrite. It accepts new and
// empty folders, and those of a local run, which creates its cluster's state first.
func ownFolder(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the output folder: %w; give a folder with --out", err)
	}
	for _, path := range []string{
		filepath.Join("state", "certs", "ca.key"),
		filepath.Join("state", "run.json"), // from interrupted stages
		"certificate.json",                 // a finished run without its state, which is refused with that reason
	} {
		if _, err := os.Stat(filepath.Join(out, path)); err == nil {
			return nil
		}
	}
	if len(entries) == 1 && entries[0].Name() == runFileName {
		return nil // a run from flags whose rows could not be read
	}
	if inside, err := os.ReadDir(filepath.Join(out, "state")); err == nil && len(inside) == 0 && len(entries) == 1 {
		return nil // a run interrupted before it had an authority
	}
	return fmt.Errorf("%s is not empty and not an earlier run; give another folder with --out", out)
}
