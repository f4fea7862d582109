package pipeline

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// Rows are the encoded records of a release.
type Rows struct {
	X       []float32 // shape [len(Classes), width]
	Classes []int
	// Odds are the log-odds of each to be real, by a discriminator that nothing is paid
	// for; nil where there is none.
	Odds []float64
}

// Take returns the rows at some places.
func (r Rows) Take(places []int, width int) Rows {
	var t Rows
	for _, i := range places {
		t.X = append(t.X, r.X[i*width:(i+1)*width]...)
		t.Classes = append(t.Classes, r.Classes[i])
		if r.Odds != nil {
			t.Odds = append(t.Odds, r.Odds[i])
		}
	}
	return t
}

// With returns the rows with others behind them.
func (r Rows) With(others Rows) Rows {
	return Rows{append(r.X, others.X...), append(r.Classes, others.Classes...), append(r.Odds, others.Odds...)}
}

// First returns the first n rows.
func (r Rows) First(n, width int) Rows {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	return r.Take(places, width)
}

// Source makes rows of what was trained and of the stages so far. The same calls make the same
// rows.
type Source interface {
	// Draw returns n rows, and a note for the report, empty for none.
	Draw(ctx context.Context, n int) (r Rows, note string, err error)
	// Class returns a function that draws n rows of a class at a time.
	Class(class int, rng *rand.Rand) (draw func(ctx context.Context, n int) (Rows, error))
}

// Fresh are rows of the last generator.
func (s *Session) Fresh() Source { return fresh{s} }

type fresh struct{ s *Session }

func (f fresh) Draw(_ context.Context, n int) (r Rows, note string, err error) {
	m := f.s.Model
	r.X, r.Classes = m.Draw(m.Generator, n, rand.New(rand.NewPCG(f.s.Seed, 0xda7a)))
	f.score(&r)
	return r, "", nil
}

func (f fresh) Class(class int, rng *rand.Rand) func(context.Context, int) (Rows, error) {
	g := f.s.Model.Generator
	return func(_ context.Context, n int) (Rows, error) {
		r := Rows{X: make([]float32, n*g.Width()), Classes: slices.Repeat([]int{class}, n)}
		g.Sample(r.X, r.Classes, rng)
		f.score(&r)
		return r, nil
	}
}

// score tells the odds of rows by the last discriminator.
func (f fresh) score(r *Rows) {
	if n := len(f.s.Pairs); n > 0 {
		last := *f.s
		last.Pairs = last.Pairs[n-1:]
		r.Odds = LogOdds(last.Scores(*r)[0])
	}
}

// LogOdds are those of probabilities, which are kept off 0 and 1.
func LogOdds(probabilities []float64) []float64 {
	odds := make([]float64, len(probabilities))
	for i, p := range probabilities {
		p = math.Min(math.Max(p, 1e-7), 1-1e-7)
		odds[i] = math.Log(p / (1 - p))
	}
	return odds
}
