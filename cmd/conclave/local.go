package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/local"
	"github.com/conclave-dp/conclave/logging"
	"github.com/conclave-dp/conclave/progress"
	"github.com/conclave-dp/conclave/run"
)

// runFlags are the flags of local and demo.
type runFlags struct {
	out, format, logLevel, votes string
}

func (r *runFlags) register(f *flag.FlagSet, out string) {
	f.StringVar(&r.out, "out", out, "folder for the results")
	f.StringVar(&r.format, "format", "text", "how to print the result: text or json")
	f.StringVar(&r.logLevel, "log-level", "error", "what the roles log to standard error: debug, info, warn or error")
	f.StringVar(&r.votes, "votes", "teachers", "teachers, or coin for the baseline that learns from coin flips")
}

func (r *runFlags) check(f *flag.FlagSet) error {
	if r.format != "text" && r.format != "json" {
		return misuse(f, "--format %q: use text or json", r.format)
	}
	if r.votes != "teachers" && r.votes != "coin" {
		return misuse(f, "--votes %q: use teachers or coin", r.votes)
	}
	if r.out == "" {
		return misuse(f, "--out: name a folder")
	}
	return nil
}

func localRun(ctx context.Context, args []string) error {
	f := flags("local", "local --run run.yaml --out DIR [flags]")
	var r runFlags
	path := f.String("run", "", "path of the run.yaml")
	r.register(f, "")
	if err := parse(f, args); err != nil {
		return err
	}
	if *path == "" {
		return misuse(f, "--run: name a run.yaml")
	}
	if err := r.check(f); err != nil {
		return err
	}
	return execute(ctx, *path, r)
}

func demo(ctx context.Context, args []string) error {
	f := flags("demo", "demo [flags]")
	var r runFlags
	r.register(f, "conclave-demo")
	if err := parse(f, args); err != nil {
		return err
	}
	if err := r.check(f); err != nil {
		return err
	}
	// The example is public, so that starting the demo anew breaks no promise:
	// what an earlier demo left is removed.
	if err := clearDemo(r.out); err != nil {
		return err
	}
	example := filepath.Join(r.out, "example")
	if err := os.CopyFS(example, flchain.Files); err != nil {
		return fmt.Errorf("unpack the example: %w", err)
	}
	return execute(ctx, filepath.Join(example, "run.yaml"), r)
}

// clearDemo removes an earlier demo, and nothing that is not one.
func clearDemo(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the output folder: %w", err)
	}
	if _, err := fs.Stat(os.DirFS(out), "example/run.yaml"); err != nil {
		return fmt.Errorf("%s is not empty and not an earlier demo; name another folder with --out", out)
	}
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("remove the earlier demo: %w", err)
	}
	return nil
}

func execute(ctx context.Context, path string, r runFlags) error {
	spec, err := run.Load(path)
	if err != nil {
		return err
	}
	log, err := logging.New(r.logLevel, logging.Auto)
	if err != nil {
		return err
	}
	display := progress.New(os.Stderr)
	result, err := local.Run(ctx, spec, local.Options{
		Out: r.out, Coin: r.votes == "coin", Log: log, Watch: display.Update,
	})
	display.Close()
	if err != nil {
		log.Debug("failed", zap.Error(err))
		return err
	}
	return show(result, r.format)
}

// show prints a result on standard output.
func show(result *run.Result, format string) error {
	if format == "json" {
		raw, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		fmt.Println(string(raw))
		return nil
	}
	fmt.Printf("%s: %d synthetic rows in %.0f s\n", result.Name, result.Rows, result.WallSeconds)
	fmt.Printf("guarantee: (%g, %g)-DP, %s; spent epsilon %.4f on %d answers by %d teachers in %d rounds\n",
		result.Epsilon, result.Delta, result.Guarantee, result.EpsilonSpent, result.Answered, result.Teachers, result.Rounds)
	if len(result.Utility) > 0 {
		fmt.Println("AUROC on real test rows (NOT PRIVATE), trained on synthetic rows:")
		for _, u := range result.Utility {
			fmt.Printf("  %-20s %.3f", u.Classifier, u.SyntheticAUROC)
			if u.RealAUROC != nil {
				fmt.Printf("   trained on real rows %.3f", *u.RealAUROC)
			}
			fmt.Println()
		}
	}
	names := make([]string, 0, len(result.Outputs))
	for name := range result.Outputs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("  %-12s %s\n", name, result.Outputs[name])
	}
	return nil
}
