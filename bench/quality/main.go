// Command quality measures what synthetic data is worth: it repeats a run at
// several epsilons and seeds, each on a real local cluster, once with the
// teachers' votes and once with coin flips in their place, and prints mean and
// spread of the AUROC on real test rows.
//
//	go run ./bench/quality                      # the shipped example
//	go run ./bench/quality --run my/run.yaml --epsilon 1,3 --seeds 5
//
// A run that scores no better than its coin flips has learned nothing. The
// figures come from real rows and are NOT PRIVATE.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

// figure is one row of the table: an AUROC over the seeds.
type figure struct {
	Privacy    string    `json:"privacy"` // NOT PRIVATE
	Epsilon    float64   `json:"epsilon"`
	Votes      string    `json:"votes"`
	Classifier string    `json:"classifier"`
	AUROC      []float64 `json:"auroc"`
	Mean       float64   `json:"mean"`
	Spread     float64   `json:"spread"`
	Real       *float64  `json:"real,omitempty"`
}

func measure(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("quality", flag.ContinueOnError)
	path := f.String("run", "", "the run.yaml to repeat; it must name test rows (default: the shipped example)")
	list := f.String("epsilon", "1,3,10", "epsilons, separated by commas")
	seeds := f.Int("seeds", 3, "number of seeds, from 1 on")
	coin := f.Bool("coin", true, "measure coin flips too")
	format := f.String("format", "text", "text or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	epsilons, err := numbers(*list)
	if err != nil {
		return err
	}
	if *seeds < 1 || f.NArg() > 0 || (*format != "text" && *format != "json") {
		return errors.New("want --seeds of at least 1, --format text or json, and no other arguments")
	}
	dir, err := os.MkdirTemp("", "conclave-quality-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *path == "" {
		example := filepath.Join(dir, "example")
		if err := os.CopyFS(example, flchain.Files); err != nil {
			return err
		}
		*path = filepath.Join(example, "run.yaml")
	}
	votes := []bool{false}
	if *coin {
		votes = append(votes, true)
	}
	var figures []*figure
	for _, epsilon := range epsilons {
		for _, coin := range votes {
			more, err := repeat(ctx, *path, dir, epsilon, *seeds, coin)
			if err != nil {
				return err
			}
			figures = append(figures, more...)
		}
	}
	if *format == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(figures)
	}
	return table(os.Stdout, figures)
}

// repeat runs one epsilon with all seeds and returns a figure for each
// classifier.
func repeat(ctx context.Context, path, dir string, epsilon float64, seeds int, coin bool) ([]*figure, error) {
	name := "teachers"
	if coin {
		name = "coin flips"
	}
	var figures []*figure
	for seed := 1; seed <= seeds; seed++ {
		spec, err := run.Load(path)
		if err != nil {
			return nil, err
		}
		spec.Privacy.Epsilon, spec.Seed = epsilon, uint64(seed)
		spec.Evaluate.Models = nil // the two yardsticks
		if err := spec.Validate(); err != nil {
			return nil, err
		}
		out := filepath.Join(dir, "out")
		started := time.Now()
		result, err := local.Run(ctx, spec, local.Options{Out: out, Coin: coin})
		if err != nil {
			return nil, fmt.Errorf("epsilon %v, seed %d, %s: %w", epsilon, seed, name, err)
		}
		if len(result.Utility) == 0 {
			return nil, errors.New("the run names no test rows; set evaluate.test")
		}
		if err := os.RemoveAll(out); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "epsilon %v, seed %d, %s, NOT PRIVATE:", epsilon, seed, name)
		for i, u := range result.Utility {
			if u.SyntheticAUROC == nil {
				return nil, errors.New("the run is one of images; name one of a table")
			}
			if len(figures) <= i {
				figures = append(figures, &figure{Privacy: evaluate.NotPrivate, Epsilon: epsilon, Votes: name, Classifier: u.Classifier, Real: u.RealAUROC})
			}
			figures[i].AUROC = append(figures[i].AUROC, *u.SyntheticAUROC)
			fmt.Fprintf(os.Stderr, " %s %.3f", u.Classifier, *u.SyntheticAUROC)
		}
		fmt.Fprintf(os.Stderr, " (%.0f s)\n", time.Since(started).Seconds())
	}
	for _, x := range figures {
		if x.Mean = stat.Mean(x.AUROC, nil); len(x.AUROC) > 1 {
			x.Spread = stat.StdDev(x.AUROC, nil)
		}
	}
	return figures, nil
}

func table(out io.Writer, figures []*figure) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, evaluate.NotPrivate)
	fmt.Fprintln(w, "epsilon\tclassifier\tvotes\tAUROC mean\tspread\tseeds\treal rows")
	for _, x := range figures {
		ceiling := "-"
		if x.Real != nil {
			ceiling = fmt.Sprintf("%.3f", *x.Real)
		}
		fmt.Fprintf(w, "%g\t%s\t%s\t%.3f\t%.3f\t%d\t%s\n", x.Epsilon, x.Classifier, x.Votes, x.Mean, x.Spread, len(x.AUROC), ceiling)
	}
	return w.Flush()
}

func numbers(list string) ([]float64, error) {
	var out []float64
	for part := range strings.SplitSeq(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(v > 0) {
			return nil, fmt.Errorf("--epsilon %q: want numbers above 0, separated by commas", list)
		}
		out = append(out, v)
	}
	return out, nil
}
