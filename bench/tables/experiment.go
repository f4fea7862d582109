package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/run/results"
)

type experiment struct {
	name, short string
	// Unless told otherwise: coin has runs without what the sites know measured, too.
	coin  bool
	seeds int
	// groups are made when the flags are known.
	groups func() ([]group, error)
	// show writes the tables of groups; nil stands for [groupTables].
	show func([]*figures.Line, []group) string
	// flags adds the experiment's own flags; done processes all outcomes at the end. Both may be nil.
	flags func(*cobra.Command)
	done  func([]*figures.Line) error
}

// group is runs that are compared with each other: of one data set, pipeline and budget.
type group struct {
	name string
	// data is the name of a data set's folder; empty where the runs themselves name their rows.
	data string
	// train and test are splits of the data set; empty for those of that name. All groups of a command that
	// share a data set share its splits.
	train, test    string
	images         bool
	epsilon, delta float64
	pipeline       string
	teachers, rows int // rows are synthetic
	// sites is how many share the rows; 0 for one.
	sites int
	// fields are more of the run.yaml.
	fields string
	cases  []runCase
	// worth measures the rows; nil only checks that runs end well.
	worth *measure
	// alone leaves out the null.
	alone bool
	// paper is a paper's figure, 0 where there is none.
	paper float64
	// runs makes the rows of a case; nil stands for [attempt.run] with nothing changed.
	runs func(context.Context, *attempt, *figures.Line) (*table, *results.Result, error)
}

type runCase struct {
	name string
	// fields are more of the run.yaml, over those of the group.
	fields string
	// notPrivate marks experiments for comparison, which leave no certificate.
	notPrivate bool
	// bare names the same rows without their weights, which are then measured too.
	bare string
	// refused is what the run must say, where it must not begin.
	refused string
	// made are rows without a run; nil where a run makes them. It may return none, which is no outcome.
	made func(context.Context, *attempt) (*table, error)
}

// measure is a list of figures of rows.
type measure struct {
	names []string
	of    func(ctx context.Context, d *dataset, rows *table) ([]float64, error)
}

func (m *measure) named(figures []float64) map[string]float64 {
	all := map[string]float64{}
	for i, name := range m.names {
		if !math.IsNaN(figures[i]) {
			all[name] = figures[i]
		}
	}
	return all
}

// session is an experiment with what the command line asks for.
type session struct {
	*experiment
	data, only, cases, options, log string
	seeds, from                     int
	null, real, tables, resNet      bool

	dir   string // for runs, one after the other
	sets  map[string]*dataset
	notes *log
	// ceilings are the figures of real rows, by data set and measure.
	ceilings map[ceiling]map[string]float64
}

type ceiling struct {
	data  string
	worth *measure
}

func (e *experiment) command() *cobra.Command {
	c := &cobra.Command{Use: e.name + " [flags]", Short: e.short}
	s := &session{experiment: e}
	f := c.Flags()
	f.StringVar(&s.data, "data", "",
		"`folder` with a subfolder for each data set; missing ones are skipped")
	f.StringVar(&s.only, "only", "*", "comma-separated names of groups, or patterns such as 'adult-*'")
	f.StringVar(&s.cases, "cases", "*", "comma-separated names of cases, or patterns")
	f.IntVar(&s.seeds, "seeds", e.seeds, "number of seeds")
	f.IntVar(&s.from, "from", 1, "the first seed")
	f.BoolVar(&s.null, "coin", e.coin, "also measure runs with coin flips or without records")
	f.BoolVar(&s.real, "real", true, "also measure real rows")
	f.StringVar(&s.options, "options", "", "pipeline options in YAML flow style, which override those of the runs")
	f.StringVar(&s.log, "log", "", "append each run to `file` as a JSON line; runs in the file are not repeated")
	f.BoolVar(&s.resNet, "resnet", false,
		"also score images with a residual network, which takes minutes each; use a separate log")
	f.BoolVar(&s.tables, "tables", false, "measure nothing, only print the tables of --log")
	if e.flags != nil {
		e.flags(c)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if s.seeds < 1 || s.from < 1 || s.tables && s.log == "" {
			return cli.Misuse("use --seeds and --from of at least 1, and --log with --tables")
		}
		return s.main(c.Context())
	}
	return c
}

// main measures and prints. The tables are printed of what is there when it is interrupted, too.
func (s *session) main(ctx context.Context) error {
	groups, err := s.groups()
	if err != nil {
		return err
	}
	if groups, err = choose(groups, s.only, s.cases); err != nil {
		return err
	}
	for i := range groups {
		if s.resNet && groups[i].worth == imagesWorth {
			groups[i].worth = imagesByResNet
		}
	}
	if s.notes, err = openLog(s.log); err != nil {
		return err
	}
	defer s.notes.close()
	fmt.Fprintln(os.Stderr, evaluate.NotPrivate)
	var problem error
	if !s.tables {
		problem = s.measure(ctx, groups)
	}
	show := s.show
	if show == nil {
		show = groupTables
	}
	fmt.Print(show(s.notes.outcomes, groups))
	if failed := s.notes.failed(groups); problem == nil && failed > 0 {
		problem = fmt.Errorf("%d runs failed", failed)
	}
	if problem == nil && s.done != nil {
		problem = s.done(s.notes.outcomes)
	}
	return problem
}

// measure runs seed by seed, so that tables of fewer seeds exist if it is interrupted.
func (s *session) measure(ctx context.Context, groups []group) error {
	dir, err := os.MkdirTemp("", "conclave-"+s.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.dir, s.ceilings = filepath.Join(dir, "run"), map[ceiling]map[string]float64{}
	if s.sets, err = openAll(groups, s.data, dir); err != nil {
		return err
	}
	for seed := s.from; seed < s.from+s.seeds; seed++ {
		for _, g := range groups {
			if g.data != "" && s.sets[g.data] == nil {
				continue
			}
			if err := s.group(ctx, g, seed); err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
		}
	}
	return nil
}

func (s *session) group(ctx context.Context, g group, seed int) error {
	d := s.sets[g.data]
	if s.real && d != nil && g.worth != nil && !s.notes.has(g.name, figures.RealRows, 0, false) {
		measured, err := s.ceiling(ctx, g, d)
		if err != nil {
			return fmt.Errorf("real rows: %w", err)
		}
		if err := s.notes.add(&figures.Line{Group: g.name, Case: figures.RealRows, Figures: measured}); err != nil {
			return err
		}
	}
	for _, c := range g.cases {
		for _, null := range []bool{false, true} {
			withNull := s.null && !g.alone && c.refused == "" && c.made == nil
			if null && !withNull || s.notes.has(g.name, c.name, seed, null) {
				continue
			}
			a := &attempt{group: g, runCase: c, data: d, seed: seed, null: null, options: s.options, dir: s.dir}
			outcomes := a.outcomes(ctx)
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, o := range outcomes {
				if err := s.notes.add(o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ceiling is the worth of the real training rows, measured once.
func (s *session) ceiling(ctx context.Context, g group, d *dataset) (map[string]float64, error) {
	of := ceiling{g.data, g.worth}
	if s.ceilings[of] == nil {
		measured, err := g.worth.of(ctx, d, d.train)
		if err != nil {
			return nil, err
		}
		s.ceilings[of] = g.worth.named(measured)
	}
	return s.ceilings[of], nil
}

// outcomes runs a case and measures its rows. A failure is an outcome too.
func (a *attempt) outcomes(ctx context.Context) []*figures.Line {
	o := &figures.Line{Group: a.group.name, Case: a.runCase.name, Seed: a.seed, Null: a.null}
	started, used := time.Now(), processorTime()
	rows, result, err := a.rows(ctx, o)
	o.Seconds, o.Processor = time.Since(started).Seconds(), (processorTime() - used).Seconds()
	if err == nil && rows == nil && a.made != nil {
		return nil
	}
	if a.refused != "" {
		switch {
		case err == nil:
			err = errors.New("it ran, and should have been refused")
		case strings.Contains(err.Error(), a.refused):
			err = nil
		}
		o.Fail(err)
		return []*figures.Line{o}
	}
	if result != nil {
		o.Spent, o.Rounds, o.Queries, o.Notes = result.EpsilonSpent, result.Rounds, result.Queries, result.Notes
	}
	all := []*figures.Line{o}
	if err == nil && a.worth != nil && rows != nil {
		err = a.figures(ctx, o, rows)
		if err == nil && a.bare != "" {
			plain := *o
			plain.Case, plain.Notes = a.bare, nil
			err = a.figures(ctx, &plain, without(rows))
			all = append(all, &plain)
		}
	}
	o.Evaluated = time.Since(started).Seconds()
	o.Fail(err)
	return all
}

func (a *attempt) figures(ctx context.Context, o *figures.Line, rows *table) error {
	measured, err := a.worth.of(ctx, a.data, rows)
	if err == nil {
		o.Figures = a.worth.named(measured)
	}
	return err
}

// choose finds the groups and cases of names and patterns, separated by commas.
func choose(groups []group, only, cases string) ([]group, error) {
	for flag, patterns := range map[string]string{"--only": only, "--cases": cases} {
		for pattern := range strings.SplitSeq(patterns, ",") {
			if _, err := path.Match(strings.TrimSpace(pattern), ""); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", flag, pattern, err)
			}
		}
	}
	for pattern := range strings.SplitSeq(only, ",") {
		if !slices.ContainsFunc(groups, func(g group) bool { return match(pattern, g.name) }) {
			return nil, fmt.Errorf("--only: no group is named %q", pattern)
		}
	}
	var chosen []group
	for _, g := range groups {
		g.cases = slices.DeleteFunc(slices.Clone(g.cases), func(c runCase) bool { return !match(cases, c.name) })
		if match(only, g.name) && len(g.cases) > 0 {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no group is named %q with a case %q", only, cases)
	}
	return chosen, nil
}

// match says whether a name fits one of some patterns.
func match(patterns, name string) bool {
	return slices.ContainsFunc(strings.Split(patterns, ","), func(pattern string) bool {
		ok, _ := path.Match(strings.TrimSpace(pattern), name)
		return ok
	})
}
