package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

const realRows = "real rows"

type outcome struct {
	Privacy string `json:"privacy"` // NOT PRIVATE
	Group   string `json:"group"`
	Case    string `json:"case"`
	Seed    int    `json:"seed"`
	// Null is of a run of coin flips or without records.
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
	// Processor is the time of all cores until its files are written, which other work on the machine changes less.
	Processor float64  `json:"seconds_processor,omitempty"`
	Failed    string   `json:"failed,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// processorTime is what this process and the ones that it waited for have used.
func processorTime() (used time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return used
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
	for line := range bytes.Lines(raw) {
		o := &outcome{}
		if err := json.Unmarshal(line, o); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		l.outcomes = append(l.outcomes, o)
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
func (l *log) failed(groups []group) (n int) {
	for _, o := range l.outcomes {
		if o.Failed != "" && slices.ContainsFunc(groups, func(g group) bool { return g.name == o.Group }) {
			n++
		}
	}
	return n
}

// add says what came out of a run and keeps it.
func (l *log) add(o *outcome) error {
	o.Privacy = evaluate.NotPrivate
	fmt.Fprintln(os.Stderr, o)
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
