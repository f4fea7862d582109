package relabel

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/labels"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

const (
	// clip is the largest norm of a record's gradient. It is about a third of the largest possible one: rare large
	// gradients are cut, and all have a third of the noise.
	clip = 0.42
	// momentum is the part of a step that the next one repeats.
	momentum = 0.8
	// pace is the size of steps, in units of what one over the largest curvature would be. Steps are unstable from
	// about 7 on: momentum 0.8 allows 3.6, and the loss of classes has a curvature of at most 1/2.
	pace = 5
	// leastDeviation is the standard deviation below which a column is no longer scaled up.
	leastDeviation = 0.05
)

// tables learns the rule for tables by gradient descent. Each round asks for the gradient of all records and takes a
// step.
//
// The scaling and the size of steps follow from drawn rows, and the number of records from released class counts, so
// a round depends on releases only.
func tables(ctx context.Context, of *Options, so pipeline.Source, s *pipeline.Session, sigma float64) (rule, error) {
	looked, _, err := so.Draw(ctx, mostLooked)
	if err != nil {
		return nil, err
	}
	scaling, err := labels.Fit(s.Encoder.Width(), s.Encoder.Numbers(), looked.X, leastDeviation)
	if err != nil {
		return nil, fmt.Errorf("%w: relabel: %w", pipeline.ErrStage, err)
	}
	records, err := s.Learned.Records(s.Problem.Records)
	if err != nil {
		return nil, err
	}
	r := &labels.Rule{Scaling: scaling, Weights: make([]float32, s.Classes*scaling.Width()),
		Offsets: make([]float32, s.Classes)}
	shares := s.Learned.Shares()
	for c, share := range shares {
		r.Offsets[c] = float32(math.Log(max(share, leastShare)))
	}
	vectors := vectorsOf(scaling, looked)
	step := pace / spread(vectors, scaling.Width()) / float64(records)
	speed, bound := make([]float64, len(r.Weights)), boundOf(sigma)
	for round := range of.Rounds {
		s.Watch("label round", round, of.Rounds)
		release, err := s.Ask.Ask(ctx, name, r.Round(uint64(len(s.Learned.Receipts)), clip, bound, s.Ask.Baseline()))
		if err != nil {
			return nil, err
		}
		gradient := release.GetSum().GetValues()
		if len(gradient) != len(r.Weights) {
			return nil, fmt.Errorf("relabel: a release of %d numbers for %d weights", len(gradient), len(r.Weights))
		}
		s.Learned.Took(pipeline.PaidBy(release))
		for i, v := range gradient {
			speed[i] = momentum*speed[i] + float64(v)*clip/float64(bound)
			r.Weights[i] += float32(step * speed[i])
		}
	}
	s.Watch("label round", of.Rounds, of.Rounds)
	if err := calibrate(ctx, r, vectors, shares); err != nil {
		return nil, err
	}
	return &drawnLabels{r, s.Encoder}, nil
}

// leastShare is the share of a class below which its offset does not fall.
const leastShare = 1e-4

// vectorsOf are the unit vectors of rows, one after the other.
func vectorsOf(s *labels.Scaling, r pipeline.Rows) []float64 {
	n, width := len(r.Classes), s.Width()
	all := make([]float64, n*width)
	for i := range n {
		s.Of(all[i*width:(i+1)*width], r.X[i*len(r.X)/n:(i+1)*len(r.X)/n])
	}
	return all
}

// spread is the largest eigenvalue of the mean of z z' over vectors z, by the power method. It is at most 1, and at
// least 1/width.
func spread(vectors []float64, width int) float64 {
	const times = 30
	n := len(vectors) / width
	at, next := make([]float64, width), make([]float64, width)
	rng := rand.New(rand.NewPCG(1, 1))
	for j := range at {
		at[j] = rng.NormFloat64()
	}
	value := 1.0
	for range times {
		clear(next)
		var squares float64
		for _, v := range at {
			squares += v * v
		}
		for i := range n {
			z := vectors[i*width : (i+1)*width]
			var along float64
			for j, v := range z {
				along += v * at[j]
			}
			for j, v := range z {
				next[j] += along * v / float64(n)
			}
		}
		value = 0
		for j, v := range at {
			value += v * next[j] / squares
		}
		at, next = next, at
	}
	return min(1, max(value, 1/float64(width)))
}

// calibrate changes the offsets until the rule's mean probabilities are the shares. With many classes and columns a
// pass takes a second, so it ends with ctx.
func calibrate(ctx context.Context, r *labels.Rule, vectors, shares []float64) error {
	const times, enough = 100, 1e-4
	width, n := r.Width(), len(vectors)/r.Width()
	probabilities, mean := make([]float64, r.Classes()), make([]float64, r.Classes())
	for range times {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		clear(mean)
		for i := range n {
			r.Shares(probabilities, vectors[i*width:(i+1)*width])
			for c, p := range probabilities {
				mean[c] += p / float64(n)
			}
		}
		most := 0.0
		for c, m := range mean {
			by := math.Log(max(shares[c], leastShare) / max(m, leastShare))
			r.Offsets[c] += float32(by)
			most = max(most, math.Abs(by))
		}
		if most < enough {
			break
		}
	}
	return nil
}

// drawnLabels draws labels with the probabilities of a rule. A row keeps its label where another one breaks a
// constraint of the schema.
type drawnLabels struct {
	*labels.Rule
	e *encode.Encoder
}

func (l *drawnLabels) label(r *pipeline.Rows, rng *rand.Rand) (changed int) {
	z, probabilities := make([]float64, l.Width()), make([]float64, l.Classes())
	width := len(r.X) / max(1, len(r.Classes))
	for i, before := range r.Classes {
		l.Of(z, r.X[i*width:(i+1)*width])
		l.Shares(probabilities, z)
		if class := pipeline.DrawClass(probabilities, rng); class != before && l.may(r.X[i*width:(i+1)*width], class) {
			r.Classes[i] = class
			changed++
		}
	}
	return changed
}

// may tells whether a record may have a label.
func (l *drawnLabels) may(record []float32, class int) bool {
	schema := l.e.Schema()
	if len(schema.Constraints()) == 0 {
		return true
	}
	cells, err := l.e.Decode(record, class, "")
	return err == nil && schema.Broken(cells) == 0
}
