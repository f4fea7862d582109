package gpate

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/partition/encode"
)

// startOptions are those of a short fit.
func startOptions() embed.Options {
	o := embed.DefaultOptions()
	o.Features = embed.Features{Count: 0.3, Columns: 1, Pairs: 1, Bins: 5, MostPairs: 20, Fourier: 1, Waves: 20,
		Scales: []float64{1.25}}
	o.Fit = embed.Fit{Steps: 20, Batch: 32, StepSize: 5e-3, StepEnd: 1e-3, Memory: 0.8, Average: 0.9}
	return o
}

// held is a start that counts the steps that keep a generator near it, of which each has
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

// embedded answers for an embedding of records in one place, and refuses class counts.
type embedded struct {
	*crowd
	t       *testing.T
	e       *encode.Encoder
	x       []float32
	classes []int
	asked   int
}

func (o *embedded) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	o.t.Error("the class counts were asked")
	return nil, errors.New("no class counts")
}

func (o *embedded) Embedding(_ context.Context, round uint64, q *embed.Question) (*embed.Answer, error) {
	o.asked++
	f, err := embedding.New(o.e, q.Classes, q.Parts)
	if err != nil {
		return nil, err
	}
	if round != 0 || len(o.classes) == 0 {
		o.t.Errorf("round %d, %d records", round, len(o.classes))
	}
	sum := make([]float64, q.Entries)
	f.Sum(sum, o.x, o.classes)
	rng := rand.New(rand.NewPCG(9, round))
	a := &embed.Answer{Noise: q.Norm, Receipt: "embedding", Teachers: 10, EpsilonSpent: 0.25}
	for _, v := range sum {
		a.Sum = append(a.Sum, float32(v+a.Noise*rng.NormFloat64()))
	}
	return a, nil
}

// begins gives a student a start whose question the oracle answers.
func (o *embedded) begins(tr *Trainer) *held {
	o.t.Helper()
	opts := startOptions()
	if o.e.Image() != nil {
		opts.Features.Columns, opts.Features.Pairs = 0, 0
	}
	s, err := embed.NewStart(opts, o.e, 2, 1, o, func(int, int) {})
	if err != nil {
		o.t.Fatal(err)
	}
	h := &held{Start: s, t: o.t}
	tr.StartWith(h)
	return h
}

// newEmbedded is a crowd whose answers depend on their question alone.
func newEmbedded(t *testing.T, o Options, e *encode.Encoder, record recordFunc) *embedded {
	c := newCrowd(t, o, e, 10, record)
	c.models = freshModels(t, c)
	all := &embedded{crowd: c, t: t, e: e}
	for _, of := range c.real {
		for class, x := range of.ByClass {
			all.x = append(all.x, x...)
			all.classes = append(all.classes, slices.Repeat([]int{class}, len(x)/e.Width())...)
		}
	}
	return all
}

// A student with a start asks for it in place of the class counts, is held to it after each
// of its generator's steps, and goes on after restarts as if there had been none: it asks
// the same questions, and ends with the same generator to the last bit.
func TestAStudentWithAStart(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, name := range []string{"tilted sums", "moved winners", "images"} {
		c := variants(t)[name]
		c.o.Student.GeneratorSteps = 4
		t.Run(name, func(t *testing.T) {
			straight, oracle := mustNew(t, c.o, c.e, 1), newEmbedded(t, c.o, c.e, c.record)
			start := oracle.begins(straight)
			if err := straight.Run(context.Background(), oracle, c.o.Rounds, nothing, unseen); err != nil {
				t.Fatal(err)
			}
			wantAsked := oracle.crowd.asked
			if oracle.asked != 1 || len(wantAsked) != c.o.Rounds ||
				start.holds < c.o.Rounds*c.o.Student.GeneratorSteps || start.holds%c.o.Student.GeneratorSteps != 0 {
				t.Errorf("%d embeddings and %d rounds were asked, held %d times", oracle.asked, len(wantAsked),
					start.holds)
			}
			if straight.Receipts[0] != "embedding" || len(straight.Receipts) != 1+c.o.Rounds ||
				len(straight.Counts) != 2 || straight.Begun != startOptions().Fit.Steps {
				t.Errorf("learned %+v", straight.Learned)
			}
			// It is stopped while it is fitted to its start, and later on.
			path, stop := filepath.Join(t.TempDir(), "student.ckpt"), errors.New("stop")
			again := newEmbedded(t, c.o, c.e, c.record)
			var tr *Trainer
			for starts := 1; ; starts++ {
				tr = mustNew(t, c.o, c.e, 1)
				again.begins(tr)
				if found, err := tr.Restore(path, "run"); err != nil || found != (starts > 1) {
					t.Fatalf("start %d: restored %v, %v", starts, found, err)
				}
				kept := 0
				err := tr.Run(context.Background(), again, c.o.Rounds, func() error {
					if kept++; kept == 3*starts {
						return stop
					}
					return tr.Save(path, "run")
				}, unseen)
				if err == nil {
					break
				}
				if !errors.Is(err, stop) || starts > 100 {
					t.Fatal(err)
				}
			}
			at := 0
			for _, q := range again.crowd.asked {
				if at < len(wantAsked) && cmp.Equal(q, wantAsked[at]) {
					at++
				} else if !slices.ContainsFunc(wantAsked[:at], func(o *pipeline.GradientQuestion) bool {
					return cmp.Equal(q, o)
				}) {
					t.Fatalf("after question %d of %d another one was asked", at, len(wantAsked))
				}
			}
			if at != len(wantAsked) || again.asked != 1 {
				t.Errorf("%d of %d questions, %d embeddings", at, len(wantAsked), again.asked)
			}
			for i, p := range straight.Generator().Net.Params() {
				if !slices.Equal(p.Value, tr.Generator().Net.Params()[i].Value) {
					t.Fatalf("parameter %s differs after the restarts", p.Name)
				}
			}
			if diff := cmp.Diff(straight.Learned, tr.Learned); diff != "" {
				t.Error(diff)
			}
		})
	}
}
