package main

import (
	"fmt"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/bench/figures"
)

// summary is the runs of a case over its seeds.
type summary struct {
	figures map[string][]float64 // one for each seed
	seconds []float64            // until files are written
	whole   []float64            // with their evaluation
	failed  []string
	last    *figures.Line
}

// summarize collects the runs of a case; nil if there are none.
func summarize(all []*figures.Line, group, name string, null bool) *summary {
	s := &summary{figures: map[string][]float64{}}
	for _, o := range all {
		switch {
		case o.Group != group || o.Case != name || o.Null != null:
		case o.Failed != "":
			s.failed = append(s.failed, fmt.Sprintf("seed %d: %s", o.Seed, o.Failed))
		default:
			s.last = o
			s.seconds, s.whole = append(s.seconds, o.Seconds), append(s.whole, o.Evaluated)
			for k, v := range o.Figures {
				s.figures[k] = append(s.figures[k], v)
			}
		}
	}
	if s.last == nil && len(s.failed) == 0 {
		return nil
	}
	return s
}

// groupTables is a table for each group, a line for each of its cases: mean and standard
// deviation over the seeds.
func groupTables(all []*figures.Line, groups []group) string {
	var b strings.Builder
	for _, g := range groups {
		groupTable(&b, all, g)
	}
	return b.String()
}

func groupTable(b *strings.Builder, all []*figures.Line, g group) {
	var names []string
	if g.worth != nil {
		names = g.worth.names
	}
	fmt.Fprintf(b, "\n%s", g.name)
	if g.data != "" {
		fmt.Fprintf(b, ": %s, %s, epsilon %g, delta %.3g, %d rows", g.data, g.pipeline, g.epsilon, g.delta, g.rows)
	}
	b.WriteString("\n\n| case | seeds |")
	for _, name := range names {
		fmt.Fprintf(b, " %s |", name)
	}
	b.WriteString(" seconds |\n|---|---|" + strings.Repeat("---|", len(names)+1) + "\n")
	line := func(name string, null bool) {
		s := summarize(all, g.name, name, null)
		if s == nil {
			return
		}
		if null {
			name += " (null)"
		}
		fmt.Fprintf(b, "| %s | %d |", name, len(s.seconds))
		for _, k := range names {
			fmt.Fprintf(b, " %s |", figure(s.figures[k]))
		}
		fmt.Fprintf(b, " %.0f |%s\n", mean(s.seconds), strings.Join(s.failed, "; "))
	}
	for _, null := range []bool{false, true} {
		for _, c := range g.cases {
			if c.bare != "" {
				line(c.bare, null)
			}
			line(c.name, null)
		}
	}
	line(figures.RealRows, false)
}

// lineTable is one table with a line for each group, which has one case: its first figure beside
// the null, real rows and a paper, and more figures with those of real rows.
func lineTable(null string, more ...string) func([]*figures.Line, []group) string {
	return func(all []*figures.Line, groups []group) string {
		var b strings.Builder
		head := "| line | epsilon | teachers | rounds | queries | ours | " + null +
			" | real rows | paper | seconds a run | to files |"
		for _, name := range more {
			head += " " + name + " (real) |"
		}
		b.WriteString(head + "\n" + strings.Repeat("|---", strings.Count(head, "|")-1) + "|\n")
		for _, g := range groups {
			if ours := summarize(all, g.name, g.cases[0].name, false); ours != nil {
				b.WriteString(line(all, g, ours, more))
			}
		}
		return b.String()
	}
}

func line(all []*figures.Line, g group, ours *summary, more []string) string {
	null, real := summarize(all, g.name, g.cases[0].name, true), summarize(all, g.name, figures.RealRows, false)
	of := func(s *summary, name string) []float64 {
		if s == nil {
			return nil
		}
		return s.figures[name]
	}
	number := func(x float64) string {
		if x == 0 {
			return "-"
		}
		return fmt.Sprintf("%.3f", x)
	}
	epsilon, rounds, queries := fmt.Sprint(g.epsilon), 0, int64(0)
	if o := ours.last; o != nil {
		rounds, queries = o.Rounds, o.Queries
		if o.Dependent > 0 {
			epsilon = fmt.Sprintf("%.2f (data-dependent)", o.Dependent)
		}
	}
	first := g.worth.names[0]
	text := fmt.Sprintf("| %s | %s | %d | %d | %d | %s | %s | %s | %s | %.0f | %.0f |", g.name, epsilon, g.teachers,
		rounds, queries, figure(of(ours, first)), figure(of(null, first)), figure(of(real, first)), number(g.paper),
		mean(ours.whole), mean(ours.seconds))
	for _, name := range more {
		text += fmt.Sprintf(" %s (%s) |", number(mean(of(ours, name))), number(mean(of(real, name))))
	}
	return text + strings.Join(ours.failed, "; ") + "\n"
}

// figure is mean and standard deviation over the seeds.
func figure(x []float64) string {
	switch len(x) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.3f", x[0])
	}
	return fmt.Sprintf("%.3f ± %.3f", stat.Mean(x, nil), stat.StdDev(x, nil))
}
