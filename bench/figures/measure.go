package figures

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Options say how a table is run.
type Options struct {
	Data  string   // the folder of the data sets, each in a folder of its name
	Sets  []string // only these data sets; none means all
	Seeds int      // at least 3
	// Train runs a run.yaml on this machine and writes its results to a folder; with coin its votes are coin flips.
	Train func(ctx context.Context, spec *runfile.Spec, out string, coin bool) error
	// Watch is called with the progress. It may be nil.
	Watch func(text string)
}

// Result is a table with our figures.
type Result struct {
	Table
	Privacy string  `json:"privacy"` // NOT PRIVATE
	Seeds   int     `json:"seeds"`
	Rows    []*Rows `json:"rows"`
}

// Rows are the figures of one data set.
type Rows struct {
	Data      string   `json:"data"`
	Teachers  int      `json:"teachers"`
	Real      Figure   `json:"real_rows"`
	Ours      Figure   `json:"ours"`
	CoinFlips Figure   `json:"coin_flips"`
	Theirs    []Theirs `json:"theirs"`
}

// Figure is the average over twelve classifiers, as mean and standard deviation
// over the seeds.
type Figure struct {
	AUROC            float64 `json:"auroc"`
	AUROCSpread      float64 `json:"auroc_spread"`
	AveragePrecision float64 `json:"average_precision"`
	PrecisionSpread  float64 `json:"average_precision_spread"`
}

// Run measures a table. A data set whose folder is missing is an error.
func Run(ctx context.Context, t Table, o Options) (*Result, error) {
	if o.Seeds < 3 {
		return nil, fmt.Errorf("%d seeds; use at least 3, since one run says little", o.Seeds)
	}
	if o.Watch == nil {
		o.Watch = func(string) {}
	}
	sets, err := t.only(o.Sets)
	if err != nil {
		return nil, err
	}
	for _, s := range sets { // before hours of work
		if _, err := os.Stat(filepath.Join(o.Data, s.Data, "schema.yaml")); err != nil {
			return nil, fmt.Errorf("data set %s: %w; name the folder of the data sets with --data", s.Data, err)
		}
	}
	result := &Result{Table: t, Privacy: evaluate.NotPrivate, Seeds: o.Seeds}
	for _, s := range sets {
		rows, err := t.measure(ctx, s, o)
		if err != nil {
			return nil, fmt.Errorf("data set %s: %w", s.Data, err)
		}
		result.Rows = append(result.Rows, rows)
	}
	return result, nil
}

func (t Table) only(names []string) ([]Set, error) {
	if len(names) == 0 {
		return t.Sets, nil
	}
	var sets []Set
	for _, name := range names {
		found := false
		for _, s := range t.Sets {
			if s.Data == name {
				sets, found = append(sets, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("table %s has no data set %q", t.Name, name)
		}
	}
	return sets, nil
}

func (t Table) measure(ctx context.Context, s Set, o Options) (*Rows, error) {
	folder, err := filepath.Abs(filepath.Join(o.Data, s.Data))
	if err != nil {
		return nil, err
	}
	schema, err := partition.LoadSchema(filepath.Join(folder, "schema.yaml"))
	if err != nil {
		return nil, err
	}
	read := func(split string) (string, *partition.Table, error) {
		path := filepath.Join(folder, schema.Files[split].Path)
		table, err := tabular.Read(schema, path, tabular.Options{})
		return path, table, err
	}
	path, train, err := read(s.Train)
	if err != nil {
		return nil, err
	}
	_, test, err := read(s.Test)
	if err != nil {
		return nil, err
	}
	rows := &Rows{Data: s.Data, Teachers: s.Teachers, Theirs: s.Theirs(s.Data)}
	real, err := Average(ctx, train, test)
	if err != nil {
		return nil, err
	}
	rows.Real = summary([]evaluate.Ranking{real})
	o.Watch(fmt.Sprintf("NOT PRIVATE: %s: real rows %.4f", s.Data, real.AUROC))
	for _, coin := range []bool{false, true} {
		var all []evaluate.Ranking
		for seed := 1; seed <= o.Seeds; seed++ {
			synthetic, err := t.generate(ctx, s, o, folder, path, schema, seed, coin)
			if err != nil {
				return nil, fmt.Errorf("seed %d: %w", seed, err)
			}
			one, err := Average(ctx, synthetic, test)
			if errors.Is(err, evaluate.ErrOneClass) {
				one, err = evaluate.Ranking{AUROC: 0.5, AveragePrecision: Share(test)}, nil // all classifiers guess
			}
			if err != nil {
				return nil, fmt.Errorf("seed %d: %w", seed, err)
			}
			all = append(all, one)
			o.Watch(fmt.Sprintf("NOT PRIVATE: %s: seed %d, coin flips %v: %.4f", s.Data, seed, coin, one.AUROC))
		}
		if coin {
			rows.CoinFlips = summary(all)
		} else {
			rows.Ours = summary(all)
		}
	}
	return rows, nil
}

// generate runs PATE-GAN with its defaults, a warm start included, and returns as many
// synthetic rows as there are training rows, at most 10,000.
func (t Table) generate(ctx context.Context, s Set, o Options, folder, path string, schema *partition.Schema, seed int,
	coin bool) (*partition.Table, error) {
	dir, err := os.MkdirTemp("", "conclave-papers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text := fmt.Sprintf("name: papers\nschema: %q\nseed: %d\npipeline: pategan\n"+
		"data: [{site: here, file: %q}]\n"+
		"privacy: {epsilon: %g, delta: %g}\nteachers: %d\nrelease: {rows: %d}\n",
		filepath.Join(folder, "schema.yaml"), seed, path, t.Epsilon, t.Delta, s.Teachers, s.Rows)
	file := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	spec, err := runfile.Load(file)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "out")
	if err := o.Train(ctx, spec, out, coin); err != nil {
		return nil, err
	}
	return tabular.Read(schema, filepath.Join(out, "synthetic.csv"), tabular.Options{IgnoreUnit: true})
}

// Average is that of all twelve classifiers, trained on some rows and tested on others.
func Average(ctx context.Context, train, test *partition.Table) (evaluate.Ranking, error) {
	all, err := evaluate.TrainTest(ctx, train, test, classify.All()...)
	if err != nil {
		return evaluate.Ranking{}, err
	}
	var mean evaluate.Ranking
	for _, u := range all {
		mean.AUROC += u.AUROC / float64(len(all))
		mean.AveragePrecision += u.AveragePrecision / float64(len(all))
	}
	return mean, nil
}

// Share is the share of positive rows, which is the average precision of a guess.
func Share(t *partition.Table) float64 {
	positive := 0
	for i := range t.Len() {
		if t.Label(i) == t.Schema().Positive() {
			positive++
		}
	}
	return float64(positive) / float64(t.Len())
}

func summary(all []evaluate.Ranking) Figure {
	var a, p []float64
	for _, r := range all {
		a, p = append(a, r.AUROC), append(p, r.AveragePrecision)
	}
	f := Figure{AUROC: stat.Mean(a, nil), AveragePrecision: stat.Mean(p, nil)}
	if len(all) > 1 {
		f.AUROCSpread, f.PrecisionSpread = stat.StdDev(a, nil), stat.StdDev(p, nil)
	}
	return f
}
