package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/evaluate"
	"github.com/conclave-dp/conclave/evaluate/classify"
	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/local"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/run"
)

// yardsticks are the classifiers whose mean AUROC is the figure of a table.
var yardsticks = []string{"logistic regression", "random forest", "gaussian naive bayes", "gradient boosting"}

const delta = 1e-5

type options struct {
	data    string
	seeds   int
	coin    bool
	real    bool
	options string
}

// result is a measured line.
type result struct {
	Privacy string  `json:"privacy"` // NOT PRIVATE
	Name    string  `json:"name"`
	Data    string  `json:"data"`
	Epsilon float64 `json:"epsilon"`
	// Dependent is the data-dependent epsilon, of lines that stop at it.
	Dependent float64 `json:"epsilon_data_dependent,omitempty"`
	Teachers  int     `json:"teachers"`
	Measure   string  `json:"measure"`
	// Ours and Coin hold a figure for each seed.
	Ours    []float64 `json:"ours"`
	Coin    []float64 `json:"coin_flips,omitempty"`
	Real    float64   `json:"real_rows,omitempty"`
	Paper   float64   `json:"paper,omitempty"`
	Rounds  int       `json:"rounds"`
	Queries int64     `json:"queries"`
	// Seconds are those of a run in the mean, with its evaluation.
	Seconds float64 `json:"seconds"`
}

const header = `| line | epsilon | teachers | rounds | queries | ours | coin flips | real rows | paper | seconds a run |
|---|---|---|---|---|---|---|---|---|---|`

func (r *result) String() string {
	figure := func(x []float64) string {
		switch len(x) {
		case 0:
			return "-"
		case 1:
			return fmt.Sprintf("%.3f", x[0])
		}
		return fmt.Sprintf("%.3f ± %.3f", stat.Mean(x, nil), stat.StdDev(x, nil))
	}
	number := func(x float64) string {
		if x == 0 {
			return "-"
		}
		return fmt.Sprintf("%.3f", x)
	}
	epsilon := fmt.Sprint(r.Epsilon)
	if r.Dependent > 0 {
		epsilon = fmt.Sprintf("%.2f (data-dependent)", r.Dependent)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %s | %s | %s | %s | %.0f |", r.Name, epsilon, r.Teachers, r.Rounds, r.Queries,
		figure(r.Ours), figure(r.Coin), number(r.Real), number(r.Paper), r.Seconds)
}

// run measures a line.
func (o options) run(ctx context.Context, l line) (*result, error) {
	dir, err := os.MkdirTemp("", "conclave-gpate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := o.open(l, dir)
	if err != nil {
		return nil, err
	}
	r := &result{Privacy: evaluate.NotPrivate, Name: l.name, Data: l.data, Epsilon: l.epsilon, Teachers: l.teachers, Measure: "AUROC", Paper: l.paper}
	seeds := o.seeds
	if l.images {
		r.Measure, seeds = "accuracy", 1
	}
	if o.real {
		if r.Real, err = d.worth(ctx, d.train); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%s, real rows: %.3f\n", l.name, r.Real)
	}
	var seconds []float64
	for seed := 1; seed <= seeds; seed++ {
		for _, coin := range []bool{false, true} {
			if coin && (!o.coin || l.dependent > 0) {
				continue
			}
			started := time.Now()
			figure, err := o.once(ctx, l, d, dir, seed, coin, r)
			if err != nil {
				return nil, fmt.Errorf("seed %d: %w", seed, err)
			}
			took := time.Since(started).Seconds()
			fmt.Fprintf(os.Stderr, "%s, seed %d, coin flips %v: %.3f (%.0f s)\n", l.name, seed, coin, figure, took)
			if coin {
				r.Coin = append(r.Coin, figure)
			} else {
				r.Ours, seconds = append(r.Ours, figure), append(seconds, took)
			}
		}
	}
	r.Seconds = stat.Mean(seconds, nil)
	return r, nil
}

// dataset is where a data set lies, with its real rows.
type dataset struct {
	schemaPath, trainPath string
	train, test           *partition.Table
	images                bool
}

func (o options) open(l line, dir string) (*dataset, error) {
	folder := filepath.Join(dir, "flchain")
	if l.data == "flchain" {
		if err := os.CopyFS(folder, flchain.Files); err != nil {
			return nil, err
		}
	} else {
		var err error
		if folder, err = filepath.Abs(filepath.Join(o.data, l.data)); err != nil {
			return nil, err
		}
	}
	d := &dataset{schemaPath: filepath.Join(folder, "schema.yaml"), images: l.images}
	schema, err := partition.LoadSchema(d.schemaPath)
	if err != nil {
		return nil, err
	}
	read := func(split string) (string, *partition.Table, error) {
		file := schema.Files[split].Path
		if l.images {
			file = schema.Files[split].Images
		}
		if file == "" {
			file = split + ".csv.gz"
		}
		path := filepath.Join(folder, file)
		table, err := partition.Read(schema, path, partition.ReadOptions{})
		return path, table, err
	}
	if d.trainPath, d.train, err = read("train"); err != nil {
		return nil, err
	}
	_, d.test, err = read("test")
	return d, err
}

// once runs a line and returns what its synthetic rows are worth.
func (o options) once(ctx context.Context, l line, d *dataset, dir string, seed int, coin bool, r *result) (float64, error) {
	flow := l.options
	if o.options != "" {
		flow = o.options
	}
	rounds, collected := 0, &votes{}
	if l.dependent > 0 {
		// A first run finds how many rounds the data-dependent epsilon pays for.
		_, outcome, err := o.cluster(ctx, l, d, dir, flow, seed, coin, 0, collected.see)
		if err != nil {
			return 0, err
		}
		if rounds, _, err = collected.roundsFor(l.dependent, outcome.Outputs["ledger"]); err != nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "%s: %d rounds fit a data-dependent epsilon of %v\n", l.name, rounds, l.dependent)
		if rounds == 0 {
			return 0, errors.New("not one round fits the data-dependent epsilon; give the votes more noise")
		}
		*collected = votes{}
	}
	table, outcome, err := o.cluster(ctx, l, d, dir, flow, seed, coin, rounds, collected.see)
	if err != nil {
		return 0, err
	}
	r.Rounds, r.Queries = outcome.Rounds, outcome.Queries
	if l.dependent > 0 {
		if _, r.Dependent, err = collected.roundsFor(math.Inf(1), outcome.Outputs["ledger"]); err != nil {
			return 0, err
		}
		r.Epsilon = outcome.EpsilonSpent
	}
	return d.worth(ctx, table)
}

// cluster runs a line on a local cluster. Rounds above 0 replace those of the options.
func (o options) cluster(ctx context.Context, l line, d *dataset, dir, flow string, seed int, coin bool, rounds int, see see) (*partition.Table, *run.Result, error) {
	if flow == "" {
		flow = "{}"
	}
	text := fmt.Sprintf("name: measured\nschema: %q\nseed: %d\npipeline: gpate\ndata: [{site: here, file: %q}]\nprivacy: {epsilon: %g, delta: %g}\nteachers: %d\nrelease: {rows: %d}\ngpate: %s\n",
		d.schemaPath, seed, d.trainPath, l.epsilon, delta, l.teachers, l.rows, flow)
	file, out := filepath.Join(dir, "run.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	spec, err := run.Load(file)
	if err != nil {
		return nil, nil, err
	}
	if rounds > 0 {
		spec.GPATE.Rounds = rounds
	}
	if err := os.RemoveAll(out); err != nil {
		return nil, nil, err
	}
	outcome, err := local.Run(ctx, spec, local.Options{Out: out, Coin: coin, Votes: see})
	if err != nil {
		return nil, nil, err
	}
	table, err := partition.Read(d.train.Schema(), filepath.Join(out, "synthetic.csv"), partition.ReadOptions{IgnoreUnit: true})
	return table, outcome, err
}

// worth is the figure of rows or images as training data: of a table the mean AUROC of
// the yardsticks on real test rows, of images the accuracy of a small convolutional
// network on real test images.
func (d *dataset) worth(ctx context.Context, train *partition.Table) (float64, error) {
	if d.images {
		return d.accuracy(ctx, train)
	}
	models, err := classify.Named(yardsticks...)
	if err != nil {
		return 0, err
	}
	all, err := evaluate.TrainTest(ctx, train, d.test, models...)
	if errors.Is(err, evaluate.ErrOneClass) {
		return 0.5, nil // all guess alike
	}
	if err != nil {
		return 0, err
	}
	var mean float64
	for _, u := range all {
		mean += u.AUROC / float64(len(all))
	}
	return mean, nil
}

func (d *dataset) accuracy(ctx context.Context, train *partition.Table) (float64, error) {
	synthetic, err := train.Images()
	if err != nil {
		return 0, err
	}
	test, err := d.test.Images()
	if err != nil {
		return 0, err
	}
	return evaluate.ImageAccuracy(ctx, synthetic, test, len(d.train.Schema().Classes()))
}
