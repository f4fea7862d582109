package studenttest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// startOptions are the options of a short fit.
func startOptions() embed.Options {
	o := embed.DefaultOptions()
	o.Features = embed.Features{Count: 0.3, Columns: 1, Pairs: 1, Bins: 5, MostPairs: 20, Fourier: 1, Waves: 20,
		Scales: []float64{1.25}}
	o.Fit = embed.Fit{Steps: 6, Batch: 32, StepSize: 5e-3, StepEnd: 1e-3, Memory: 0.8, Average: 0.9}
	return o
}

// held is a start that counts the steps towards it. Each of them must follow exactly one of the student's own
// steps.
type held struct {
	*embed.Start
	t     testing.TB
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

// begun makes a student, with a start if there are records that answer for one.
func (c Case[Q]) begun() Trainer {
	tr := c.New()
	if c.Records != nil {
		c.Records.begins(tr)
	}
	return tr
}

// begins gives a student a start whose question the records answer.
func (o *Records) begins(tr Trainer) *held {
	opts := startOptions()
	if o.Encoder.Image() != nil {
		opts.Features.Columns, opts.Features.Pairs = 0, 0
	}
	h := &held{Start: testkit.Value(embed.NewStart(opts, o.Encoder, 2, 1, o, func(int, int) {})), t: o.T}
	tr.StartWith(h)
	return h
}

// Starts requires that a student with a start asks for it in place of the class counts, takes a step towards it
// after each of its generator's steps, and resumes after restarts. Holds is the least number of steps of its
// generator, which come in groups of steps.
func Starts[Q any](t *testing.T, make func() Case[Q], rounds, holds, steps int) {
	t.Helper()
	c := make()
	tr := c.New()
	start := c.Records.begins(tr)
	testkit.Must(t, c.Run(tr, Nothing))
	if len(c.Records.Rounds) != 1 || c.Records.Rounds[0] != 0 || len(c.Asked()) != rounds {
		t.Errorf("embeddings were asked in rounds %v, and then %d rounds", c.Records.Rounds, len(c.Asked()))
	}
	if start.holds < holds || start.holds%steps != 0 {
		t.Errorf("held %d times, want %d at least in groups of %d", start.holds, holds, steps)
	}
	if n := tr.Notes(); len(n.Receipts) != 1+rounds || n.Receipts[0] != "embedding" || len(n.Counts) != 2 ||
		n.Begun != startOptions().Fit.Steps {
		t.Errorf("learned %+v", n)
	}
	var resumed Case[Q]
	Resumes(t, func() Case[Q] { resumed = make(); return resumed })
	if n := len(resumed.Records.Rounds); n != 1 {
		t.Errorf("%d embeddings were asked over the restarts", n)
	}
}
