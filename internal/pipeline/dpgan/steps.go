package dpgan

import (
	"context"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// loss is the discriminator's loss, on real or generated records.
func (o Options) loss() losses.Loss {
	switch o.Discriminator.Loss {
	case Wasserstein:
		return losses.Wasserstein
	case KLWGAN:
		return losses.KLWGAN
	}
	return losses.Logistic
}

// generatorLoss writes the gradient of the generator's loss with respect to the scores of its records.
func (o Options) generatorLoss(grad, scores []float32) {
	switch o.Discriminator.Loss {
	case Wasserstein:
		losses.Wasserstein(grad, scores, true)
	case KLWGAN:
		losses.KLWGANGenerator(grad, scores)
	default:
		losses.Logistic(grad, scores, true)
	}
}

// balanced tells whether all classes count equally. If each class has weights of its own and nothing is shared,
// its gradient can be divided by its share, which raises the noise as well. Without the division a rare class
// would hardly move its weights or the generator.
func (t *Trainer) balanced() bool {
	return t.opts.Discriminator.Classes == "each" && t.opts.Discriminator.Layers == 0
}

// shares are the shares of the classes of generated records.
func (t *Trainer) shares() []float64 {
	if !t.balanced() {
		return t.Shares() // as real records are distributed
	}
	even := make([]float64, t.Classes)
	for c := range even {
		even[c] = 1 / float64(t.Classes)
	}
	return even
}

// sample draws generated records.
func (t *Trainer) sample(n int) (x []float32, classes []int) {
	w := t.Learner.Generator.Width()
	if cap(t.mem.x) < n*w {
		t.mem.x, t.mem.grad = make([]float32, n*w), make([]float32, n*w)
	}
	t.mem.classes = t.mem.classes[:0]
	// Class counts follow the shares up to random rounding: drawing each count would add noise.
	at, upTo := t.Rand.Float64(), 0.0
	for c, share := range t.shares() {
		upTo += share * float64(n)
		for ; at < upTo && len(t.mem.classes) < n; at++ {
			t.mem.classes = append(t.mem.classes, c)
		}
	}
	for len(t.mem.classes) < n {
		t.mem.classes = append(t.mem.classes, t.Classes-1)
	}
	x = t.mem.x[:n*w]
	t.Learner.Generator.Sample(x, t.mem.classes, t.Rand)
	return x, t.mem.classes
}

// remember stores a released gradient on real records, as that of a mean. The size of the sample is private, so
// the sum is divided by its expected size, from the released number of units.
func (t *Trainer) remember(a *pipeline.DiscriminatorAnswer) error {
	if want := t.scorer.Parameters(); len(a.Sum) != want {
		return fmt.Errorf("the release has %d numbers for %d weights", len(a.Sum), want)
	}
	if t.real == nil {
		t.real = make([]float32, len(a.Sum))
	}
	if t.released == nil && t.opts.oneMean() {
		t.released = make([]float32, len(a.Sum))
	}
	// Memory 1 keeps the average of all.
	scales := t.scales(1 / t.expected(a))
	keep := float32(min(t.opts.Discriminator.Memory, float64(t.Done)/float64(t.Done+1)))
	for i, v := range a.Sum {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("number %d of the release is not finite", i)
		}
		t.real[i] = keep*t.real[i] + (1-keep)*scales[i%len(scales)]*v
		if t.released != nil {
			t.released[i] += (scales[i%len(scales)]*v - t.released[i]) / float32(t.Done+1)
		}
	}
	return nil
}

// scales are the factors for the numbers of a release, in order. For balanced classes the last axis of every
// tensor is the class.
func (t *Trainer) scales(scale float64) []float32 {
	if !t.balanced() {
		return []float32{float32(scale)}
	}
	var scales []float32
	for _, share := range t.Shares() {
		if share == 0 {
			scales = append(scales, 0) // nothing to learn about this class
			continue
		}
		scales = append(scales, float32(scale/(share*float64(t.Classes))))
	}
	return scales
}

// stepDiscriminator moves the discriminator by the released mean gradient on real records and its own mean
// gradient on generated ones.
func (t *Trainer) stepDiscriminator() {
	x, classes := t.sample(t.opts.Discriminator.Generated)
	scores := t.scorer.Scores(x, classes)
	t.schedule.saw(scores)
	grad := make([]float32, len(scores))
	t.opts.loss()(grad, scores, false)
	t.scorer.Backward(grad)
	at := 0
	for _, p := range t.scorer.Net.Params() {
		for i := range p.Grad {
			p.Grad[i] += t.real[at]
			at++
		}
	}
	switch o := t.optimizer.(type) {
	case *optimizer.Adam:
		o.Rate = t.stepSize()
	case *optimizer.SGD:
		o.Rate = t.stepSize()
	}
	t.optimizer.Step()
}

// expected is the expected size of a sample.
func (t *Trainer) expected(a *pipeline.DiscriminatorAnswer) float64 {
	var units float64
	for _, c := range t.Counts {
		units += c
	}
	return t.opts.Rate * math.Max(1, units) * a.Share
}

// stepSize is the size of the discriminator's next step: StepSize / (1 + t/t0), which reaches StepEnd at the last
// step.
func (t *Trainer) stepSize() float64 {
	d, last := t.opts.Discriminator, max(1, t.opts.Steps-1)
	fall := d.StepSize/d.StepEnd - 1
	return d.StepSize / (1 + fall*float64(min(max(0, t.Done-1), last))/float64(last))
}

// follow makes the generator follow the discriminator; part is the used part of the present release.
func (t *Trainer) follow(ctx context.Context, part float64) error {
	if t.mover != nil {
		return t.tilt(ctx)
	}
	s := t.opts.Student
	begun := min(1, (float64(t.Done-1)+part)/float64(t.opts.Steps))
	t.Learner.SetRate(s.StepSize + (s.StepEnd-s.StepSize)*begun)
	return t.climb(ctx)
}

// climb takes the generator's steps against its loss.
func (t *Trainer) climb(ctx context.Context) error {
	for range t.opts.Student.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, classes := t.sample(t.opts.Student.Batch)
		scores := t.scorer.Scores(x, classes)
		grad := make([]float32, len(scores))
		t.opts.generatorLoss(grad, scores)
		slope := t.mem.grad[:len(x)]
		copy(slope, t.scorer.Slope(grad))
		t.Learner.Step(slope, x)
		t.Hold()
		t.schedule.adapt(t.opts.Student.Adapt, t.opts.Student.Every)
	}
	return nil
}

// tilt moves the generator to its own distribution tilted by the discriminator. The discriminator then starts
// again, since the generator has learned what it knew.
func (t *Trainer) tilt(ctx context.Context) error {
	err := t.mover.Follow(ctx, func(x []float32, classes []int) []float32 {
		return append([]float32(nil), t.scorer.Scores(x, classes)...)
	})
	if err != nil {
		return err
	}
	for _, p := range t.scorer.Net.Params() {
		clear(p.Value)
	}
	for _, p := range t.optimizer.State() {
		clear(p.Value)
	}
	return nil
}
