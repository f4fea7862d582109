package pipeline

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Rows are the encoded records of a release.
type Rows struct {
	X       []float32 // shape [len(Classes), width]
	Classes []int
	// Odds are the log-odds of each row to be real, by a discriminator that costs no budget; nil without one.
	Odds []float64
}

// Take returns the rows at these indices.
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

// With returns the rows followed by others.
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

// Source makes rows from the trained model and the stages so far. The same calls make the same rows.
type Source interface {
	// Draw returns n rows, and a note for the report, empty for none.
	Draw(ctx context.Context, n int) (r Rows, note string, err error)
	// Class returns a function that draws n rows of a class at a time.
	Class(class int, rng *rand.Rand) (draw func(ctx context.Context, n int) (Rows, error))
}

// Table decodes records x of the classes, shape [len(classes), width], to a table.
func (s *Session) Table(x []float32, classes []int) (*partition.Table, error) {
	table := partition.NewTable(s.Schema)
	return table, decode(table, s.Encoder, x, classes)
}

// decode decodes records to rows of the table, with made-up units of running numbers.
func decode(table *partition.Table, e *encode.Encoder, x []float32, classes []int) error {
	w, schema := e.Width(), table.Schema()
	for i, c := range classes {
		unit := ""
		if u := schema.UnitColumn(); u >= 0 {
			unit = schema.Columns[u].MadeUpUnit(table.Len())
		}
		cells, err := e.Decode(x[i*w:(i+1)*w], c, unit)
		if err != nil {
			return err
		}
		if err := table.Append(cells, unit); err != nil {
			return err
		}
	}
	return nil
}

// Counts divides n records among the classes by their released shares.
func (s *Session) Counts(n int) []int {
	shares := s.Learned.Shares()
	counts, sum, given := make([]int, len(shares)), 0.0, 0
	for c, share := range shares {
		sum += share
		counts[c] = max(0, min(n, int(math.Round(sum*float64(n))))-given)
		given += counts[c]
	}
	counts[len(counts)-1] += n - given // rounding errors of sums
	return counts
}

// encoded is a model that draws encoded records, without decoding them in between.
type encoded interface {
	Records(classes []int, rng *rand.Rand) ([]float32, error)
}

// Records draws an encoded record of each class from the model, shape [len(classes), width].
func (s *Session) Records(classes []int, rng *rand.Rand) ([]float32, error) {
	if m, ok := s.Model.(encoded); ok {
		return m.Records(classes, rng)
	}
	// Encoding may drop decimals of a record, so that it breaks a constraint.
	return s.Encoder.Keep(classes, func(classes []int) ([]float32, error) { return s.sampled(classes, rng) })
}

// sampled draws the records as tables of the model. Where that has no rows of a class, any rows of it stand for them.
func (s *Session) sampled(classes []int, rng *rand.Rand) ([]float32, error) {
	w := s.Encoder.Width()
	x := make([]float32, len(classes)*w)
	for class := range s.Classes {
		places := []int{}
		for i, c := range classes {
			if c == class {
				places = append(places, i)
			}
		}
		if len(places) == 0 {
			continue
		}
		var where []Condition
		if names := s.Schema.Classes(); len(names) > 0 {
			where = []Condition{{Column: s.Schema.Label, Relation: "=", Value: names[class]}}
		}
		table, err := s.Model.Sample(len(places), where, rng)
		if errors.Is(err, ErrCondition) { // noise left the class a share, but no rows in the model
			table, err = s.Model.Sample(len(places), nil, rng)
		}
		if err != nil {
			return nil, err
		}
		records := s.Encoder.Encode(table)
		for i, at := range places {
			copy(x[at*w:(at+1)*w], records.Row(i))
		}
	}
	return x, nil
}

// Fresh returns a source of the model's rows.
func (s *Session) Fresh() Source { return fresh{s} }

type fresh struct{ s *Session }

func (f fresh) Draw(_ context.Context, n int) (r Rows, note string, err error) {
	rng, shares := rand.New(rand.NewPCG(f.s.Seed, 0xda7a)), f.s.Learned.Shares()
	r.Classes = make([]int, n)
	for i := range r.Classes {
		r.Classes[i] = DrawClass(shares, rng)
	}
	if r.X, err = f.s.Records(r.Classes, rng); err != nil {
		return r, "", err
	}
	f.score(&r)
	return r, "", nil
}

func (f fresh) Class(class int, rng *rand.Rand) func(context.Context, int) (Rows, error) {
	return func(_ context.Context, n int) (r Rows, err error) {
		r.Classes = slices.Repeat([]int{class}, n)
		if r.X, err = f.s.Records(r.Classes, rng); err != nil {
			return r, err
		}
		f.score(&r)
		return r, nil
	}
}

// DrawClass draws a class by the shares, which add up to 1.
func DrawClass(shares []float64, rng *rand.Rand) int {
	u := rng.Float64()
	for i, s := range shares {
		if u -= s; u < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// score sets the odds of rows by the last discriminator.
func (f fresh) score(r *Rows) {
	if n := len(f.s.Pairs); n > 0 {
		last := *f.s
		last.Pairs = last.Pairs[n-1:]
		r.Odds = LogOdds(last.Scores(*r)[0])
	}
}

// LogOdds returns the log-odds of probabilities, which are kept away from 0 and 1.
func LogOdds(probabilities []float64) []float64 {
	odds := make([]float64, len(probabilities))
	for i, p := range probabilities {
		p = math.Min(math.Max(p, 1e-7), 1-1e-7)
		odds[i] = math.Log(p / (1 - p))
	}
	return odds
}
