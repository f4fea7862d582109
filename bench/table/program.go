// Package table runs tables of measurements: each line is a run on a local cluster,
// repeated over seeds, beside the same run without what its sites know, beside real rows,
// and beside a paper's figure. Start with [Program.Main]. All of it is NOT PRIVATE.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/run"
)

// Delta is that of all lines.
const Delta = 1e-5

// Line is a row of a table: a run, and what a paper says of it.
type Line struct {
	Name string
	// Data is the name of a data set's folder.
	Data     string
	Epsilon  float64
	Teachers int
	Rows     int // synthetic
	// Options are those of the pipeline that differ from its defaults, in YAML's flow
	// style.
	Options string
	// Pipeline is another than the program's; Run are more fields of the run.yaml.
	Pipeline, Run string
	Images        bool
	// Alone is without the null.
	Alone bool
	// Paper is its figure, 0 where there is none.
	Paper float64
}

// Program is a command that measures lines.
type Program struct {
	// Name is the command's, Pipeline that of the runs.
	Name, Pipeline string
	// Null names the runs without what the sites know.
	Null  string
	Lines []Line
	// Alike compares columns and pairs of columns of tables with those of real test rows too.
	Alike bool
	// Once measures a line once and returns its synthetic rows; nil stands for
	// [Cluster.Run] with nothing changed.
	Once func(context.Context, *Cluster) (*Table, error)
	// Done sees all results at the end; may be nil.
	Done func([]*Result) error

	data, options string
	seeds         int
	null, real    bool
	ceilings      map[string]float64
}

// Main measures what the command line asks for, prints it, and ends the process when
// something is wrong. Flags may have more flags defined already.
func (p *Program) Main(f *flag.FlagSet) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := p.measure(ctx, f, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, p.Name+":", err)
		os.Exit(1)
	}
}

func (p *Program) measure(ctx context.Context, f *flag.FlagSet, args []string) error {
	f.StringVar(&p.data, "data", "", "folder of the data sets, each in a folder of its name")
	only := f.String("only", "", "names of lines, separated by commas, or patterns such as 'mnist-*' (default: all)")
	f.IntVar(&p.seeds, "seeds", 3, "number of seeds of tables, from 1 on; images have one")
	f.BoolVar(&p.null, "coin", true, "measure "+p.Null+" too")
	f.BoolVar(&p.real, "real", true, "measure real rows too")
	f.StringVar(&p.options, "options", "", "options of "+p.Pipeline+" in YAML's flow style, over those of the lines, to try some")
	format := f.String("format", "text", "text or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	if p.seeds < 1 || f.NArg() > 0 || (*format != "text" && *format != "json") {
		return errors.New("want --seeds of at least 1, --format text or json, and no other arguments")
	}
	chosen, err := p.Choose(*only)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, evaluate.NotPrivate)
	var results []*Result
	for _, l := range chosen {
		if l.Data != example && p.data == "" {
			return fmt.Errorf("line %s needs the data set %s; name the folder of the data sets with --data", l.Name, l.Data)
		}
		r, err := p.run(ctx, l)
		if err != nil {
			return fmt.Errorf("line %s: %w", l.Name, err)
		}
		results = append(results, r)
		if *format == "text" {
			if len(results) == 1 {
				fmt.Println(p.header())
			}
			fmt.Println(r)
		}
	}
	if *format == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(results); err != nil {
			return err
		}
	}
	if p.Done == nil {
		return nil
	}
	return p.Done(results)
}

// Check says which lines are no runs: two of one name, options that a run does not take, or
// more than their budget allows.
func (p *Program) Check() (errs []error) {
	dir, err := os.MkdirTemp("", "conclave-"+p.Name+"-")
	if err != nil {
		return []error{err}
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, flchain.Files); err != nil {
		return []error{err}
	}
	names := map[string]bool{}
	for _, l := range p.Lines {
		if names[l.Name] {
			errs = append(errs, fmt.Errorf("two lines are named %s", l.Name))
		}
		names[l.Name] = true
		schemaPath := filepath.Join(dir, "schema.yaml")
		if l.Images {
			schemaPath = filepath.Join(dir, "images.yaml")
			if err := os.WriteFile(schemaPath, []byte(images), 0o600); err != nil {
				return append(errs, err)
			}
		}
		spec, err := p.Spec(l, dir, schemaPath, "train.csv.gz", 1)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.Name, err))
			continue
		}
		schema, err := spec.LoadSchema()
		if err != nil {
			return append(errs, err)
		}
		if _, err := run.NewPlan(spec, schema); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.Name, err))
		}
	}
	return errs
}

// images is a schema of MNIST's shape: no images are part of the project.
const images = `name: images
label: y
format: idx
image: {height: 28, width: 28, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 784}
  - {name: y, kind: categorical, categories: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}
`

// Choose finds the lines of names and patterns, separated by commas; all for none.
func (p *Program) Choose(only string) ([]Line, error) {
	if only == "" {
		return p.Lines, nil
	}
	var chosen []Line
	for pattern := range strings.SplitSeq(only, ",") {
		found := false
		for _, l := range p.Lines {
			match, err := path.Match(strings.TrimSpace(pattern), l.Name)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", pattern, err)
			}
			found = found || match
			if match && !slices.Contains(chosen, l) {
				chosen = append(chosen, l)
			}
		}
		if !found {
			return nil, fmt.Errorf("no line is named %q", pattern)
		}
	}
	return chosen, nil
}
