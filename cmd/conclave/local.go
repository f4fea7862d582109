package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/run"
)

// runFlags are the flags of local and demo.
type runFlags struct {
	out, logLevel, votes string
	format               *string
}

func (r *runFlags) register(f *flag.FlagSet, out string) {
	f.StringVar(&r.out, "out", out, "folder for the results (or set CONCLAVE_OUT)")
	r.format = formatFlag(f)
	f.StringVar(&r.logLevel, "log-level", "error", "what the roles log to standard error: debug, info, warn or error (or set CONCLAVE_LOG_LEVEL)")
	f.StringVar(&r.votes, "votes", "teachers", "teachers, or coin for the baseline that learns from coin flips")
}

// check completes the flags from the environment and checks them.
func (r *runFlags) check(f *flag.FlagSet) error {
	if err := fromEnvironment(f, "out", "log-level"); err != nil {
		return err
	}
	switch r.logLevel {
	case "debug", "info", "warn", "error":
	default:
		return misuse(f, "--log-level %q: use debug, info, warn or error", r.logLevel)
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
	if err := ownFolder(r.out); err != nil {
		return err
	}
	err := execute(ctx, *path, r)
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted; the same command goes on where this one stopped")
	}
	return err
}

// ownFolder refuses an output folder with other people's files in it, which the
// results could overwrite. New and empty folders will do, and those of a local
// run: it makes its cluster's state first.
func ownFolder(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the output folder: %w; name a folder with --out", err)
	}
	for _, path := range []string{
		filepath.Join("state", "certs", "ca.key"),
		filepath.Join("state", "run.json"), // of stages that were stopped
		"certificate.json",                 // a finished run without its state, which is refused as such
	} {
		if _, err := os.Stat(filepath.Join(out, path)); err == nil {
			return nil
		}
	}
	if inside, err := os.ReadDir(filepath.Join(out, "state")); err == nil && len(inside) == 0 && len(entries) == 1 {
		return nil // a run that was stopped before it had an authority
	}
	return fmt.Errorf("%s is not empty and not an earlier run; name another folder with --out", out)
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
	if *r.format == "text" {
		fmt.Fprintln(os.Stderr, "demo: two sites with 1000 teachers, an aggregator and a student, all on this machine")
	}
	err := execute(ctx, filepath.Join(example, "run.yaml"), r)
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted; the same command starts the demo anew")
	}
	return err
}

// demoFiles is all that a demo leaves in its folder.
var demoFiles = []string{"example", "state", "model", "synthetic.csv", "ledger.jsonl", "certificate.json", "report.html", "report.md", "report.json"}

// clearDemo removes what an earlier demo left, and nothing else.
func clearDemo(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the output folder: %w", err)
	}
	shipped, err := flchain.Files.ReadFile("schema.yaml")
	if err != nil {
		return fmt.Errorf("read the example: %w", err)
	}
	if found, err := os.ReadFile(filepath.Join(out, "example", "schema.yaml")); err != nil || !bytes.Equal(found, shipped) {
		return fmt.Errorf("%s is not empty and not an earlier demo; name another folder with --out", out)
	}
	for _, name := range demoFiles {
		if err := os.RemoveAll(filepath.Join(out, name)); err != nil {
			return fmt.Errorf("remove the earlier demo: %w", err)
		}
	}
	return nil
}

func execute(ctx context.Context, path string, r runFlags) error {
	spec, err := run.Load(path)
	if err != nil {
		return err
	}
	log, err := logging.New(logging.Config{Level: r.logLevel, Format: logging.Auto})
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
	if *r.format == "json" {
		return printJSON(result)
	}
	show(result)
	return nil
}

// outputs says what each file of a run is, in the order people want them.
var outputs = []struct{ name, what string }{
	{"synthetic", "the synthetic rows"},
	{"not_private", "rows for comparison, NOT PRIVATE: not to be given away"},
	{"images", "the synthetic images, as idx"},
	{"labels", "their labels"},
	{"samples", "some of them, to look at"},
	{"report", "what they look like, for a browser"},
	{"report_md", "the same in short, as text"},
	{"report_json", "the same for programs"},
	{"certificate", "what was guaranteed; it travels with the rows"},
	{"ledger", "every answer and its cost"},
	{"model", "draws more rows at no cost"},
}

// show prints a result for people, and what they may do next.
func show(result *run.Result) {
	fmt.Printf("%s: %d synthetic rows in %.0f s\n", result.Name, result.Rows, result.WallSeconds)
	if result.NotPrivate {
		fmt.Printf("NOT PRIVATE: no guarantee covers these rows and there is no certificate; they are for comparison, where the real rows are\n")
		fmt.Printf("spent epsilon %.4f of %g on %d rounds with %d teachers all the same\n", result.EpsilonSpent, result.Epsilon, result.Rounds, result.Teachers)
	} else if len(result.Earlier) > 0 {
		fmt.Printf("guarantee: (%g, %g)-DP, %s; spent epsilon %.4f together with run %s; the stages took %d answers of %d teachers\n",
			result.Epsilon, result.Delta, result.Guarantee, result.EpsilonSpent, strings.Join(result.Earlier, ", "), result.Answered, result.Teachers)
	} else {
		fmt.Printf("guarantee: (%g, %g)-DP, %s; spent epsilon %.4f on %d answers by %d teachers in %d rounds\n",
			result.Epsilon, result.Delta, result.Guarantee, result.EpsilonSpent, result.Answered, result.Teachers, result.Rounds)
	}
	for _, note := range result.Notes {
		fmt.Println(note)
	}
	showUtility(result.Utility)
	fmt.Println("files:")
	width := 0
	for _, o := range outputs {
		width = max(width, len(result.Outputs[o.name]))
	}
	for _, o := range outputs {
		if path := result.Outputs[o.name]; path != "" { // of tables there are no images
			what := o.what
			if o.name == "model" && len(result.Notes) > 0 {
				what += ", without what the stages did"
			}
			fmt.Printf("  %-*s  %s\n", width, path, what)
		}
	}
	if result.NotPrivate {
		return
	}
	me := invocation()
	fmt.Println("next:")
	fmt.Printf("  %s ledger verify --ledger %s --certificate %s\n", me, result.Outputs["ledger"], result.Outputs["certificate"])
	fmt.Printf("  %s sample --model %s --rows 1000 --out more.csv\n", me, result.Outputs["model"])
}

// showUtility prints what was measured on real rows, where there were any.
func showUtility(utility []run.UtilityResult) {
	if len(utility) == 0 {
		return
	}
	measure, rows := "AUROC", "rows"
	if utility[0].SyntheticAccuracy != nil {
		measure, rows = "accuracy", "images"
	}
	fmt.Printf("%s on real test %s of models trained on (NOT PRIVATE, stays on this machine):\n", measure, rows)
	for _, u := range utility {
		synthetic, real := cmp.Or(u.SyntheticAUROC, u.SyntheticAccuracy), cmp.Or(u.RealAUROC, u.RealAccuracy)
		fmt.Printf("  %-29s synthetic %s %.3f", u.Classifier, rows, *synthetic)
		if real != nil {
			fmt.Printf(", real %s %.3f", rows, *real)
		}
		fmt.Println()
	}
}

// invocation is how this program was started, as a person would type it: `go run`
// leaves its binary in a folder that is gone afterwards.
func invocation() string {
	if path, err := os.Executable(); err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/conclave"
	}
	return "conclave"
}
