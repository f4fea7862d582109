// Package embedtest has what tests of pipelines with a warm start share.
package embedtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

// options are those of a short fit.
func options() embed.Options {
	o := embed.DefaultOptions()
	o.Features = embed.Features{Count: 0.3, Columns: 1, Pairs: 1, Bins: 5, MostPairs: 20, Fourier: 1, Waves: 20,
		Scales: []float64{1.25}}
	o.Fit = embed.Fit{Steps: 20, Batch: 32, StepSize: 5e-3, StepEnd: 1e-3, Memory: 0.8, Average: 0.9}
	return o
}

// held is a start that counts the steps that keep a generator near it; each has
// to come after one of the student's own.
type held struct {
	*embed.Start
	t     *testing.T
	holds int
	last  int
}

func (h *held) Begin(ctx context.Context, notes *pipeline.Learned, l *pipeline.Learner, rng *rand.Rand,
	keep func() error) error {
	err := h.Start.Begin(ctx, notes, l, rng, keep)
	h.last = l.Steps()[0]
	return err
}

func (h *held) Hold(l *pipeline.Learner, rng *rand.Rand) {
	h.holds++
	if own := l.Steps()[0] - h.last; own != 1 {
		h.t.Errorf("%d steps before hold %d", own, h.holds)
	}
	h.Start.Hold(l, rng)
	h.last = l.Steps()[0]
}

// Records answers for an embedding of records in one place, and refuses class counts.
type Records struct {
	T       *testing.T
	Encoder *encode.Encoder
	X       []float32 // encoded, shape [len(Classes), Encoder.Width()]
	Classes []int
	asked   int
}

// OfTeachers are the records of all teachers.
func OfTeachers(t *testing.T, e *encode.Encoder, teachers []ensemble.Examples) Records {
	all := Records{T: t, Encoder: e}
	for _, of := range teachers {
		for class, x := range of.ByClass {
			all.X = append(all.X, x...)
			all.Classes = append(all.Classes, slices.Repeat([]int{class}, len(x)/e.Width())...)
		}
	}
	return all
}

func (o *Records) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	o.T.Error("the class counts were asked")
	return nil, errors.New("no class counts")
}

func (o *Records) Embedding(_ context.Context, round uint64, q *embed.Question) (*embed.Answer, error) {
	o.asked++
	f, err := embedding.New(o.Encoder, q.Classes, q.Parts)
	if err != nil {
		return nil, err
	}
	if round != 0 || len(o.Classes) == 0 {
		o.T.Errorf("round %d, %d records", round, len(o.Classes))
	}
	sum := make([]float64, q.Entries)
	f.Sum(sum, o.X, o.Classes)
	rng := rand.New(rand.NewPCG(9, round))
	a := &embed.Answer{Noise: q.Norm, Paid: pipeline.Paid{Receipt: "embedding", Teachers: 10, EpsilonSpent: 0.25}}
	for _, v := range sum {
		a.Sum = append(a.Sum, float32(v+a.Noise*rng.NormFloat64()))
	}
	return a, nil
}

// begins gives a student a start whose question the records answer.
func (o *Records) begins(tr Trainer) *held {
	o.T.Helper()
	opts := options()
	if o.Encoder.Image() != nil {
		opts.Features.Columns, opts.Features.Pairs = 0, 0
	}
	h := &held{Start: testkit.Value(embed.NewStart(opts, o.Encoder, 2, 1, o, func(int, int) {})), t: o.T}
	tr.StartWith(h)
	return h
}

// Trainer is a student that may have a start.
type Trainer interface {
	StartWith(s pipeline.Start)
	Generator() *pipeline.Generator
	Save(path, identity string) error
	Restore(path, identity string) (bool, error)
}

// Student is a student beside what answers its questions of type Q.
type Student[Q any] struct {
	New   func() (Trainer, *pipeline.Learned) // untrained, and what it notes
	Asked func() []Q
	Run   func(tr Trainer, keep func() error) error
	*Records
}

// Run wants a student with a start to ask for it in place of the class counts, to be held to it
// after each of its generator's steps, and to go on after restarts as if there had been none: it
// asks the same questions, and ends with the same generator to the last bit. Each call of make
// gives a student beside oracles that nobody has asked yet. It asks so many rounds; holds is
// the least number of steps of its generator, which come in groups of steps.
func Run[Q any](t *testing.T, make func() Student[Q], rounds, holds, steps int) {
	t.Helper()
	first := make()
	straight, learned := first.New()
	start := first.begins(straight)
	testkit.Must(t, first.Run(straight, func() error { return nil }))
	want := first.Asked()
	if first.asked != 1 || len(want) != rounds || start.holds < holds || start.holds%steps != 0 {
		t.Errorf("%d embeddings and %d rounds were asked, held %d times", first.asked, len(want), start.holds)
	}
	if learned.Receipts[0] != "embedding" || len(learned.Receipts) != 1+rounds || len(learned.Counts) != 2 ||
		learned.Begun != options().Fit.Steps {
		t.Errorf("learned %+v", learned)
	}
	// It is stopped while it is fitted to its start, and later on.
	path, stop, again := filepath.Join(t.TempDir(), "student.ckpt"), errors.New("stop"), make()
	var tr Trainer
	var noted *pipeline.Learned
	for starts := 1; ; starts++ {
		tr, noted = again.New()
		again.begins(tr)
		if found, err := tr.Restore(path, "run"); err != nil || found != (starts > 1) {
			t.Fatalf("start %d: restored %v, %v", starts, found, err)
		}
		kept := 0
		err := again.Run(tr, func() error {
			if kept++; kept == 3*starts {
				return stop
			}
			return tr.Save(path, "run")
		})
		if err == nil {
			break
		}
		if !errors.Is(err, stop) || starts > 100 {
			t.Fatal(err)
		}
	}
	at := 0
	for _, q := range again.Asked() {
		if at < len(want) && cmp.Equal(q, want[at]) {
			at++
		} else if !slices.ContainsFunc(want[:at], func(o Q) bool { return cmp.Equal(q, o) }) {
			t.Fatalf("after question %d of %d another one was asked", at, len(want))
		}
	}
	if at != len(want) || again.asked != 1 {
		t.Errorf("%d of %d questions, %d embeddings", at, len(want), again.asked)
	}
	for i, p := range straight.Generator().Net.Params() {
		if !slices.Equal(p.Value, tr.Generator().Net.Params()[i].Value) {
			t.Fatalf("parameter %s differs after the restarts", p.Name)
		}
	}
	if diff := cmp.Diff(learned, noted); diff != "" {
		t.Error(diff)
	}
}
