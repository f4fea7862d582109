package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/evaluate"
)

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

// log holds outcomes, in a file too if it has one.
type log struct {
	outcomes []*figures.Line
	file     *os.File
}

func openLog(path string) (*log, error) {
	l := &log{}
	if path == "" {
		return l, nil
	}
	var err error
	if l.outcomes, err = figures.ReadLog(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
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
	return slices.ContainsFunc(l.outcomes, func(o *figures.Line) bool {
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
func (l *log) add(o *figures.Line) error {
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
