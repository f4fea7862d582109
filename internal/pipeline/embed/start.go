package embed

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Start is the release that a generator is fitted to: the only release of `pipeline: embed`, and the warm start
// of other pipelines. It is a [pipeline.Start].
type Start struct {
	opts     Options
	classes  int
	features *embedding.Features
	question Question
	oracle   Oracle
	// watch is called with the steps taken and their total.
	watch func(done, steps int)

	// sum is the release, nil before it; noise is the noise of each of its numbers.
	sum     []float32
	noise   float64
	matcher *matcher
}

// NewStart prepares the question, which is answered with noise of multiplier sigma. Watch is called with the steps
// taken and their total.
func NewStart(opts Options, e *encode.Encoder, classes int, sigma float64, oracle Oracle,
	watch func(done, steps int)) (*Start, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.ChosenFor(e, classes, sigma)
	if err := opts.CheckFor(e, classes); err != nil {
		return nil, err
	}
	q, features, err := opts.question(e, classes)
	if err != nil {
		return nil, err
	}
	return &Start{opts: opts, classes: classes, features: features, question: *q, oracle: oracle, watch: watch}, nil
}

// keeps is how often the state is stored while the generator is fitted. showEvery is the longest time between
// progress updates, except during a step.
const (
	keeps     = 10
	showEvery = time.Second
)

// errDiverged means that a weight became NaN or infinite.
var errDiverged = fmt.Errorf("embed: %w; lower fit.step_size", pipeline.ErrDiverged)

// Begin asks in round 0 and fits the generator to the answer.
func (s *Start) Begin(ctx context.Context, notes *pipeline.Learned, l *pipeline.Learner, rng *rand.Rand,
	keep func() error) error {
	if s.sum == nil {
		a, err := s.oracle.Embedding(ctx, 0, &s.question)
		if err != nil {
			return err
		}
		if err := s.take(a.Sum, a.Noise); err != nil {
			return fmt.Errorf("embed: %w", err)
		}
		notes.Counts, notes.CountScale = s.counts()
		notes.Took(a.Paid)
		if err := keep(); err != nil {
			return err
		}
	}
	steps, shown := s.opts.Fit.Steps, time.Now()
	for notes.Begun < steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.SetRate(s.rate(notes.Begun))
		s.matcher.step(l, rng, notes.Begun)
		notes.Begun++
		if notes.Begun%max(1, steps/keeps) != 0 {
			if time.Since(shown) > showEvery {
				s.watch(notes.Begun, steps)
				shown = time.Now()
			}
			continue
		}
		if l.Diverged() {
			return errDiverged
		}
		if err := keep(); err != nil {
			return err
		}
		s.watch(notes.Begun, steps)
	}
	if l.Diverged() {
		return errDiverged
	}
	return nil
}

// Hold takes one step towards the release, of the learner's own step size.
func (s *Start) Hold(l *pipeline.Learner, rng *rand.Rand) {
	s.matcher.step(l, rng, s.opts.Fit.Steps)
}

// clarity, times a class's count divided by the noise of a number, is the weight of its columns and pairs, at most
// 1. Otherwise cells that are mostly noise would be learned as if they were real; waves, which sum over all
// records, still carry information. Measured on flchain, adult and credit. All inputs are released.
const clarity = 0.003

// take reads the release: mean features by class.
func (s *Start) take(sum []float32, noise float64) error {
	n := s.features.Count()
	if len(sum) != s.classes*n {
		return fmt.Errorf("the release has %d numbers for %d features of %d classes", len(sum), n, s.classes)
	}
	noise = float64(float32(noise)) // as a checkpoint stores it
	if !(noise > 0) || math.IsInf(noise, 0) {
		return fmt.Errorf("noise of %v; it must be a number above 0", noise)
	}
	for i, v := range sum {
		if v-v != 0 {
			return fmt.Errorf("number %d of the release is not finite", i)
		}
	}
	s.sum, s.noise = sum, noise
	counts, scale := s.counts()
	mean, gain := make([]float32, len(sum)), make([]float32, len(sum))
	for c, count := range counts {
		count = math.Max(count, scale)
		for j, v := range sum[c*n : (c+1)*n] {
			mean[c*n+j] = float32(float64(v) / count)
		}
		s.gains(gain[c*n:(c+1)*n], count)
	}
	s.matcher = newMatcher(s.features, mean, gain, s.opts.Fit)
	return nil
}

// gains computes the weights of differences in a class with this count.
func (s *Start) gains(gain []float32, count float64) {
	cells := float32(min(1, clarity*count/s.noise))
	for _, span := range s.features.Spans() {
		of := float32(1)
		if span.Kind == embedding.Columns || span.Kind == embedding.Pairs {
			of = cells
		}
		for j := range span.Count {
			gain[span.First+j] = of
		}
	}
}

// counts returns the released class counts, and the scale of Laplace noise of the same size.
func (s *Start) counts() (counts []float64, scale float64) {
	one := s.question.Parts[0].Weight
	for c := range s.classes {
		counts = append(counts, float64(s.sum[c*s.features.Count()])/one)
	}
	return counts, s.noise / one / math.Sqrt2
}

// rate is the step size after the given number of steps.
func (s *Start) rate(done int) float64 {
	f := s.opts.Fit
	return f.StepEnd + (f.StepSize-f.StepEnd)*(1+math.Cos(math.Pi*float64(done)/float64(f.Steps)))/2
}

// Tensors adds the release and the moving average of generated means.
func (s *Start) Tensors(set *safetensors.Set) {
	if s.sum == nil {
		return
	}
	set.Add("start.", []tensor.Param{pipeline.Vector("sum", s.sum),
		pipeline.Vector("noise", []float32{float32(s.noise)}), pipeline.Vector("made", s.matcher.made)})
}

// Restore takes the state from a checkpoint's tensors.
func (s *Start) Restore(set *safetensors.Set, notes *pipeline.Learned) error {
	if notes.Counts == nil {
		return nil
	}
	sum, noise, made := make([]float32, s.question.Entries), make([]float32, 1), make([]float32, s.question.Entries)
	if err := set.CopyTo("start.", []tensor.Param{pipeline.Vector("sum", sum), pipeline.Vector("noise", noise),
		pipeline.Vector("made", made)}); err != nil {
		return err
	}
	if err := s.take(sum, float64(noise[0])); err != nil {
		return err
	}
	copy(s.matcher.made, made)
	return nil
}
