// Package studenttest has the common parts of tests of generator students: records to learn, and suites that
// all of them pass.
package studenttest

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Trainer is a student that may have a start.
type Trainer interface {
	pipeline.Starter
	Generator() *pipeline.Generator
	Rounds() int
	Notes() *pipeline.Learned
	Save(path, identity string) error
	Restore(path, identity string) (bool, error)
}

// Case is a student with an oracle that answers its questions of type Q.
type Case[Q any] struct {
	New   func() Trainer // untrained
	Run   func(tr Trainer, keep func() error) error
	Asked func() []Q // of the oracle, so far
	// Records answer for a start, unless they are nil. The student then has the start.
	*Records
}

// Nothing and Unseen are callbacks that do nothing.
func Nothing() error           { return nil }
func Unseen(pipeline.Progress) {}

// Resumes requires that a student that is stopped again and again works as if it had not been: it asks exactly
// the same questions, and ends with the same notes and bit for bit the same generator. Each call of make gives
// a case with a fresh oracle, which answers a repeated question in the same way. Both students are returned for
// further comparison.
func Resumes[Q any](t *testing.T, make func() Case[Q]) (straight, resumed Trainer) {
	t.Helper()
	first, again := make(), make()
	straight = first.begun()
	testkit.Must(t, first.Run(straight, Nothing))
	path, stop := filepath.Join(t.TempDir(), "student.ckpt"), errors.New("stop")
	for starts := 1; ; starts++ {
		resumed = again.begun()
		if found, err := resumed.Restore(path, "run"); err != nil || found != (starts > 1) {
			t.Fatalf("start %d: restored %v, %v", starts, found, err)
		}
		kept := 0
		err := again.Run(resumed, func() error {
			if kept++; kept > 1+starts%2 { // later work is lost
				return stop
			}
			return resumed.Save(path, "run")
		})
		if err == nil {
			break
		}
		if !errors.Is(err, stop) || starts > 200 {
			t.Fatal(err)
		}
	}
	at, want := 0, first.Asked()
	for _, q := range again.Asked() {
		if at < len(want) && cmp.Equal(q, want[at]) {
			at++
		} else if !slices.ContainsFunc(want[:at], func(o Q) bool { return cmp.Equal(q, o) }) {
			t.Fatalf("after question %d of %d another one was asked", at, len(want))
		}
	}
	if at != len(want) {
		t.Errorf("%d of %d questions were asked", at, len(want))
	}
	if !slices.Equal(Weights(straight.Generator()), Weights(resumed.Generator())) {
		t.Error("the generator differs after the restarts")
	}
	testkit.Same(t, "notes", straight.Notes(), resumed.Notes())
	return straight, resumed
}

// Stopped saves a student that has learned from this many rounds and has stored its state this often since. It
// returns the checkpoint's path.
func (c Case[Q]) Stopped(t *testing.T, rounds int) string {
	t.Helper()
	path, tr, stop := filepath.Join(t.TempDir(), "student.ckpt"), c.begun(), errors.New("stop")
	if err := c.Run(tr, func() error {
		if tr.Rounds() < rounds || tr.Notes().Counts == nil {
			return nil
		}
		return errors.Join(tr.Save(path, "run"), stop)
	}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	return path
}

// Weights returns all numbers of a generator.
func Weights(g *pipeline.Generator) (all []float32) {
	for _, p := range g.Net.Params() {
		all = append(all, p.Value...)
	}
	return all
}
