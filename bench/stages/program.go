// Package stages measures what follows training: groups of runs of one data set that differ
// in their stages or weights, repeated over seeds, beside the same runs without what the
// sites know, and beside real rows. Every run's ledger is verified with its certificate.
// Start with [Program.Main]. All of it is NOT PRIVATE.
package stages

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

// Group is runs that are compared with each other: of one data set, pipeline and budget.
type Group struct {
	Name string
	// Data is the name of a data set's folder.
	Data           string
	Epsilon, Delta float64
	Pipeline       string
	Teachers, Rows int // Rows are synthetic
	// Sites is how many share the rows; 0 for one.
	Sites int
	// Run are more fields of the run.yaml, one a line.
	Run   string
	Cases []Case
	// Measure says what rows are worth; nil measures nothing but that runs end well.
	Measure *Measure
}

// Case is a run of a group.
type Case struct {
	Name string
	// Run are more fields of the run.yaml, one a line.
	Run string
	// NotPrivate marks those for comparison, which leave no certificate.
	NotPrivate bool
	// Bare names the same rows without their weights, which are then measured too.
	Bare string
	// Refused is what the run must say, where it must not begin.
	Refused string
}

// Measure is a list of figures of rows.
type Measure struct {
	Names []string
	Of    func(ctx context.Context, d *Dataset, rows *Table) ([]float64, error)
}

// Program is a command that measures groups.
type Program struct {
	Name   string
	Groups []Group
	// Strict fails at the end if a run did.
	Strict bool

	data, only, cases, log string
	seeds, from            int
	null, real, tables     bool
}

// Main measures what the command line asks for, prints it, and ends the process when
// something is wrong.
func (p *Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	if err := p.main(ctx, f, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, p.Name+":", err)
		os.Exit(1)
	}
}

func (p *Program) main(ctx context.Context, f *flag.FlagSet, args []string) error {
	f.StringVar(&p.data, "data", "", "folder of the data sets, each in a folder of its name; one that is not there is left out")
	f.StringVar(&p.only, "only", "*", "names of groups, separated by commas, or patterns such as 'titanic-*'")
	f.StringVar(&p.cases, "cases", "*", "names of cases, likewise")
	f.IntVar(&p.seeds, "seeds", 5, "number of seeds")
	f.IntVar(&p.from, "from", 1, "the first seed")
	f.BoolVar(&p.null, "coin", false, "measure runs of coin flips or without records too")
	f.BoolVar(&p.real, "real", true, "measure real rows too")
	f.StringVar(&p.log, "log", "", "file that figures are added to as they are measured, as JSON lines; those in it are not measured again")
	f.BoolVar(&p.tables, "tables", false, "measure nothing, print the tables of --log")
	if err := f.Parse(args); err != nil {
		return err
	}
	if p.seeds < 1 || p.from < 1 || f.NArg() > 0 || p.tables && p.log == "" {
		return errors.New("want --seeds and --from of at least 1, --log with --tables, and no other arguments")
	}
	chosen, err := p.choose()
	if err != nil {
		return err
	}
	notes, err := openLog(p.log)
	if err != nil {
		return err
	}
	defer notes.close()
	fmt.Fprintln(os.Stderr, evaluate.NotPrivate)
	if !p.tables {
		if err := p.measure(ctx, chosen, notes); err != nil {
			return err
		}
	}
	for _, g := range chosen {
		fmt.Print(notes.table(g))
	}
	if failed := notes.failed(chosen); p.Strict && failed > 0 {
		return fmt.Errorf("%d runs failed", failed)
	}
	return nil
}

// measure runs seed by seed, so that a table of fewer seeds is there when it is interrupted.
func (p *Program) measure(ctx context.Context, chosen []Group, notes *log) error {
	sets := map[string]*Dataset{}
	for _, g := range chosen {
		if sets[g.Data] != nil {
			continue
		}
		d, err := open(p.data, g.Data)
		if errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "%s is left out: %v; name the folder of the data sets with --data\n", g.Data, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("data set %s: %w", g.Data, err)
		}
		sets[g.Data] = d
	}
	dir, err := os.MkdirTemp("", "conclave-"+p.Name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for seed := p.from; seed < p.from+p.seeds; seed++ {
		for _, g := range chosen {
			if d := sets[g.Data]; d != nil {
				if err := p.group(ctx, g, d, seed, dir, notes); err != nil {
					return fmt.Errorf("%s: %w", g.Name, err)
				}
			}
		}
	}
	return nil
}

// group measures the cases of a group with a seed.
func (p *Program) group(ctx context.Context, g Group, d *Dataset, seed int, dir string, notes *log) error {
	if p.real && g.Measure != nil && !notes.has(g.Name, realRows, 0, false) {
		figures, err := g.Measure.Of(ctx, d, d.Train)
		if err != nil {
			return fmt.Errorf("real rows: %w", err)
		}
		if err := notes.add(&outcome{Group: g.Name, Case: realRows, Figures: g.Measure.named(figures)}); err != nil {
			return err
		}
	}
	for _, c := range g.Cases {
		for _, null := range []bool{false, true} {
			if null && (!p.null || c.Refused != "") || notes.has(g.Name, c.Name, seed, null) {
				continue
			}
			outcomes := once(ctx, g, c, d, seed, null, filepath.Join(dir, "run"))
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, o := range outcomes {
				fmt.Fprintf(os.Stderr, "%s\n", o)
				if err := notes.add(o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// choose finds the groups and cases of names and patterns, separated by commas.
func (p *Program) choose() ([]Group, error) {
	match := func(patterns, name string) (bool, error) {
		for pattern := range strings.SplitSeq(patterns, ",") {
			ok, err := path.Match(strings.TrimSpace(pattern), name)
			if err != nil {
				return false, fmt.Errorf("%q: %w", pattern, err)
			}
			if ok {
				return true, nil
			}
		}
		return false, nil
	}
	var chosen []Group
	for _, g := range p.Groups {
		ok, err := match(p.only, g.Name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		all := g.Cases
		g.Cases = nil
		for _, c := range all {
			if ok, err = match(p.cases, c.Name); err != nil {
				return nil, err
			}
			if ok {
				g.Cases = append(g.Cases, c)
			}
		}
		if len(g.Cases) > 0 {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no group is named %q with a case %q", p.only, p.cases)
	}
	return slices.Clip(chosen), nil
}
