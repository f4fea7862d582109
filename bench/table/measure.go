package table

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml"
	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/partition"
)

// Result is a measured line.
type Result struct {
	Privacy string  `json:"privacy"` // NOT PRIVATE
	Name    string  `json:"name"`
	Data    string  `json:"data"`
	Epsilon float64 `json:"epsilon"`
	// Dependent is the data-dependent epsilon, of lines that stop at it.
	Dependent float64 `json:"epsilon_data_dependent,omitempty"`
	Teachers  int     `json:"teachers"`
	Measure   string  `json:"measure"`
	// Ours and Null hold a figure for each seed.
	Ours    []float64 `json:"ours"`
	Null    []float64 `json:"null,omitempty"`
	Real    float64   `json:"real_rows,omitempty"`
	Paper   float64   `json:"paper,omitempty"`
	Rounds  int       `json:"rounds"`
	Queries int64     `json:"queries"`
	// Seconds are those of a run in the mean, with its evaluation, ToFiles those until its
	// files are written.
	Seconds float64 `json:"seconds"`
	ToFiles float64 `json:"seconds_to_files,omitempty"`
	// Alike and RealAlike are how alike synthetic and real test rows, and real rows of
	// training and of test, are in the mean; nil where that is not measured.
	Alike     *Likeness `json:"alike,omitempty"`
	RealAlike *Likeness `json:"real_rows_alike,omitempty"`
}

func (p *Program) header() string {
	more, rule := "", ""
	if p.Alike {
		more, rule = " to files | column shapes (real) | pair trends (real) |", "---|---|---|"
	}
	return "| line | epsilon | teachers | rounds | queries | ours | " + p.Null + " | real rows | paper | seconds a run |" + more +
		"\n|---|---|---|---|---|---|---|---|---|---|" + rule
}

func (r *Result) String() string {
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
	line := fmt.Sprintf("| %s | %s | %d | %d | %d | %s | %s | %s | %s | %.0f |", r.Name, epsilon, r.Teachers, r.Rounds, r.Queries,
		figure(r.Ours), figure(r.Null), number(r.Real), number(r.Paper), r.Seconds)
	if r.ToFiles > 0 {
		line += fmt.Sprintf(" %.0f |", r.ToFiles)
		for _, f := range []func(*Likeness) float64{(*Likeness).shapes, (*Likeness).trends} {
			line += fmt.Sprintf(" %s (%s) |", number(f(r.Alike)), number(f(r.RealAlike)))
		}
	}
	return line
}

// run measures a line.
func (p *Program) run(ctx context.Context, l Line) (*Result, error) {
	dir, err := os.MkdirTemp("", "conclave-"+p.Name+"-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := p.open(l, dir)
	if err != nil {
		return nil, err
	}
	r := &Result{Privacy: evaluate.NotPrivate, Name: l.Name, Data: l.Data, Epsilon: l.Epsilon, Teachers: l.Teachers, Measure: "AUROC", Paper: l.Paper}
	seeds := p.seeds
	if l.Images {
		r.Measure, seeds = "accuracy", 1
	} else if d.unlabelled() {
		r.Measure = "pair trends"
	}
	if p.Alike && !l.Images && p.real {
		if r.RealAlike, err = d.alike(d.train); err != nil {
			return nil, err
		}
	}
	if p.real {
		if r.Real, err = p.ceiling(ctx, l, d); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%s, real rows: %.3f\n", l.Name, r.Real)
	}
	var seconds []float64
	for seed := 1; seed <= seeds; seed++ {
		for _, null := range []bool{false, true} {
			if null && (!p.null || l.Alone) {
				continue
			}
			started := time.Now()
			c := &Cluster{Line: l, Result: r, Seed: seed, Null: null, program: p, data: d, dir: dir}
			figure, err := c.figure(ctx)
			if err != nil {
				return nil, fmt.Errorf("seed %d: %w", seed, err)
			}
			took := time.Since(started).Seconds()
			if null {
				fmt.Fprintf(os.Stderr, "%s, seed %d, %s: %.3f (%.0f s)\n", l.Name, seed, p.Null, figure, took)
				r.Null = append(r.Null, figure)
			} else {
				fmt.Fprintf(os.Stderr, "%s, seed %d: %.3f (%.0f s)\n", l.Name, seed, figure, took)
				r.Ours, seconds = append(r.Ours, figure), append(seconds, took)
			}
		}
	}
	r.Seconds = stat.Mean(seconds, nil)
	if p.Alike {
		r.ToFiles /= float64(seeds)
		r.Alike.over(float64(seeds))
	}
	return r, nil
}

// ceiling is the worth of the real rows, measured once.
func (p *Program) ceiling(ctx context.Context, l Line, d *dataset) (float64, error) {
	if known, ok := p.ceilings[l.Data]; ok {
		return known, nil
	}
	figure, err := d.worth(ctx, d.train)
	if err != nil {
		return 0, err
	}
	if p.ceilings == nil {
		p.ceilings = map[string]float64{}
	}
	p.ceilings[l.Data] = figure
	return figure, nil
}

// Cluster runs a line with a seed, as it is or without what the sites know.
type Cluster struct {
	Line   Line
	Result *Result
	Seed   int
	Null   bool

	program *Program
	data    *dataset
	dir     string
}

// figure is what the synthetic rows are worth.
func (c *Cluster) figure(ctx context.Context) (float64, error) {
	once := c.program.Once
	if once == nil {
		once = func(ctx context.Context, c *Cluster) (*Table, error) {
			table, _, err := c.Run(ctx, nil, local.Options{})
			return table, err
		}
	}
	table, err := once(ctx, c)
	if err != nil {
		return 0, err
	}
	if c.program.Alike && !c.Null && !c.Line.Images {
		alike, err := c.data.alike(table)
		if err != nil {
			return 0, err
		}
		if c.Result.Alike == nil {
			c.Result.Alike = new(Likeness)
		}
		c.Result.Alike.add(alike)
	}
	return c.data.worth(ctx, table)
}

// Run runs the line on a local cluster and returns its synthetic rows. Change, which may
// be nil, changes the run; of the options of the cluster the hooks count.
func (c *Cluster) Run(ctx context.Context, change func(*run.Spec), o local.Options) (*Table, *run.Result, error) {
	spec, err := c.program.Spec(c.Line, c.dir, c.data.schemaPath, c.data.trainPath, c.Seed)
	if err != nil {
		return nil, nil, err
	}
	if change != nil {
		change(spec)
	}
	o.Out, o.Coin = filepath.Join(c.dir, "out"), c.Null
	if err := os.RemoveAll(o.Out); err != nil {
		return nil, nil, err
	}
	outcome, err := local.Run(ctx, spec, o)
	if err != nil {
		return nil, nil, err
	}
	c.Result.Rounds, c.Result.Queries = outcome.Rounds, outcome.Queries
	if c.program.Alike && !c.Null {
		c.Result.ToFiles += outcome.WallSeconds
	}
	table, err := partition.Read(c.data.train.Schema(), filepath.Join(o.Out, "synthetic.csv"), partition.ReadOptions{IgnoreUnit: true})
	return table, outcome, err
}

// Spec writes the run of a line to dir and loads it.
func (p *Program) Spec(l Line, dir, schema, data string, seed int) (*run.Spec, error) {
	flow, err := over(l.Options, p.options)
	if err != nil {
		return nil, err
	}
	pipeline := cmp.Or(l.Pipeline, p.Pipeline)
	text := fmt.Sprintf("name: measured\nschema: %q\nseed: %d\npipeline: %s\ndata: [{site: here, file: %q}]\nprivacy: {epsilon: %g, delta: %g}\nteachers: %d\nrelease: {rows: %d}\n%s: %s\n%s\n",
		schema, seed, pipeline, data, l.Epsilon, Delta, l.Teachers, l.Rows, pipeline, flow, l.Run)
	file := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return run.Load(file)
}

// over puts options over others, field by field, both in YAML's flow style.
func over(below, above string) (string, error) {
	var merged map[string]any
	for _, flow := range []string{below, above} {
		var fields map[string]any
		if err := yaml.Unmarshal([]byte(flow), &fields); err != nil {
			return "", fmt.Errorf("options %s: %w", flow, err)
		}
		merged = merge(merged, fields)
	}
	raw, err := json.Marshal(merged) // which is YAML too
	return string(raw), err
}

func merge(below, above map[string]any) map[string]any {
	merged := map[string]any{}
	for _, fields := range []map[string]any{below, above} {
		for k, v := range fields {
			part, ok := v.(map[string]any)
			old, both := merged[k].(map[string]any)
			if ok && both {
				merged[k] = merge(old, part)
			} else {
				merged[k] = v
			}
		}
	}
	return merged
}
