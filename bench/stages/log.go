package stages

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

// realRows is the case of the real training rows.
const realRows = "real rows"

// outcome is a run that was measured.
type outcome struct {
	Privacy string `json:"privacy"` // NOT PRIVATE
	Group   string `json:"group"`
	Case    string `json:"case"`
	Seed    int    `json:"seed"`
	// Null is of a run of coin flips or without records.
	Null    bool               `json:"null,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Spent   float64            `json:"epsilon_spent,omitempty"`
	Seconds float64            `json:"seconds"` // until its files are written
	Failed  string             `json:"failed,omitempty"`
	Notes   []string           `json:"notes,omitempty"`
}

func (o *outcome) fail(err error) {
	if err != nil {
		o.Failed = err.Error()
	}
}

func (o *outcome) String() string {
	null := ""
	if o.Null {
		null = " (null)"
	}
	line := fmt.Sprintf("%s, %s%s, seed %d (%.0f s):", o.Group, o.Case, null, o.Seed, o.Seconds)
	if o.Failed != "" {
		return line + " FAILED: " + o.Failed
	}
	for _, name := range slices.Sorted(maps.Keys(o.Figures)) {
		line += fmt.Sprintf(" %s %.3f", name, o.Figures[name])
	}
	return line
}

// named gives figures their names.
func (m *Measure) named(figures []float64) map[string]float64 {
	all := map[string]float64{}
	for i, name := range m.Names {
		all[name] = figures[i]
	}
	return all
}

// log holds outcomes, in a file too if it has one.
type log struct {
	outcomes []*outcome
	file     *os.File
}

func openLog(path string) (*log, error) {
	l := &log{}
	if path == "" {
		return l, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bufio.NewScanner(strings.NewReader(string(raw)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		o := &outcome{}
		if err := json.Unmarshal(lines.Bytes(), o); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		l.outcomes = append(l.outcomes, o)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return l, err
}

func (l *log) close() {
	if l.file != nil {
		l.file.Close()
	}
}

func (l *log) has(group, name string, seed int, null bool) bool {
	return slices.ContainsFunc(l.outcomes, func(o *outcome) bool {
		return o.Group == group && o.Case == name && o.Seed == seed && o.Null == null
	})
}

// failed counts the runs of groups that did.
func (l *log) failed(groups []Group) (n int) {
	for _, o := range l.outcomes {
		if o.Failed != "" && slices.ContainsFunc(groups, func(g Group) bool { return g.Name == o.Group }) {
			n++
		}
	}
	return n
}

func (l *log) add(o *outcome) error {
	o.Privacy = evaluate.NotPrivate
	l.outcomes = append(l.outcomes, o)
	if l.file == nil {
		return nil
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(raw, '\n'))
	return err
}

// table is a group's, mean and standard deviation over the seeds.
func (l *log) table(g Group) string {
	var names []string
	if g.Measure != nil {
		names = g.Measure.Names
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s, %s, epsilon %g, delta %.3g, %d rows\n\n| case | seeds |", g.Name, g.Data, g.Pipeline, g.Epsilon, g.Delta, g.Rows)
	for _, name := range names {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString(" seconds |\n|---|---|" + strings.Repeat("---|", len(names)+1) + "\n")
	line := func(name string, null bool) {
		figures := map[string][]float64{}
		var seconds []float64
		var failed []string
		for _, o := range l.outcomes {
			switch {
			case o.Group != g.Name || o.Case != name || o.Null != null:
			case o.Failed != "":
				failed = append(failed, fmt.Sprintf("seed %d: %s", o.Seed, o.Failed))
			default:
				seconds = append(seconds, o.Seconds)
				for k, v := range o.Figures {
					figures[k] = append(figures[k], v)
				}
			}
		}
		if len(seconds)+len(failed) == 0 {
			return
		}
		if null {
			name += " (null)"
		}
		fmt.Fprintf(&b, "| %s | %d |", name, len(seconds))
		for _, k := range names {
			fmt.Fprintf(&b, " %s |", figure(figures[k]))
		}
		took := 0.0
		if len(seconds) > 0 {
			took = stat.Mean(seconds, nil)
		}
		fmt.Fprintf(&b, " %.0f |%s\n", took, strings.Join(failed, "; "))
	}
	for _, null := range []bool{false, true} {
		for _, c := range g.Cases {
			if c.Bare != "" {
				line(c.Bare, null)
			}
			line(c.Name, null)
		}
	}
	line(realRows, false)
	return b.String()
}

func figure(x []float64) string {
	switch len(x) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.3f", x[0])
	}
	return fmt.Sprintf("%.3f ± %.3f", stat.Mean(x, nil), stat.StdDev(x, nil))
}
