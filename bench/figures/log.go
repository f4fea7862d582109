package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// RealRows is the case of a line about real rows, which has no seed.
const RealRows = "real rows"

// Line is a line of a bench's log, from which tables and pages are made: what came out of a run with a seed, or of
// measuring real rows.
type Line struct {
	Privacy string `json:"privacy"` // NOT PRIVATE
	Group   string `json:"group"`
	Case    string `json:"case"`
	Seed    int    `json:"seed"`
	// Null is of a run of coin flips, or without records or what the sites know.
	Null    bool               `json:"null,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Rounds  int                `json:"rounds,omitempty"`
	Queries int64              `json:"queries,omitempty"`
	Spent   float64            `json:"epsilon_spent,omitempty"`
	// Dependent is the data-dependent epsilon, of runs that stop at it.
	Dependent float64 `json:"epsilon_data_dependent,omitempty"`
	// Seconds are those until its files are written, Evaluated those until it is measured.
	Seconds   float64 `json:"seconds"`
	Evaluated float64 `json:"seconds_evaluated,omitempty"`
	// Processor is the time of all cores until its files are written, which other work on the machine changes less; 0
	// in old logs.
	Processor float64  `json:"seconds_processor,omitempty"`
	Failed    string   `json:"failed,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Machine is the operating system, the number of cores and the version of Go, in logs of tests.
	Machine string `json:"machine,omitempty"`
}

// Fail records an error, if there is one.
func (l *Line) Fail(err error) {
	if err != nil {
		l.Failed = err.Error()
	}
}

// String is the line for people.
func (l *Line) String() string {
	null := ""
	if l.Null {
		null = " (null)"
	}
	line := fmt.Sprintf("%s, %s%s, seed %d (%.0f s):", l.Group, l.Case, null, l.Seed, l.Seconds)
	if l.Failed != "" {
		return line + " FAILED: " + l.Failed
	}
	for _, name := range slices.Sorted(maps.Keys(l.Figures)) {
		line += fmt.Sprintf(" %s %.3f", name, l.Figures[name])
	}
	return line
}

// ReadLog reads a log.
func ReadLog(path string) (all []*Line, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		l := &Line{}
		if err := json.Unmarshal(line, l); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, l)
	}
	return all, nil
}
