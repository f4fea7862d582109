package dpgan

import (
	"cmp"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// ChosenFor returns the options with every unset value chosen for the records of an encoder, of images or of
// tables.
func (o Options) ChosenFor(e *encode.Encoder) Options {
	images := e.Image() != nil
	if o.Batch > 0 && o.Units >= o.Batch {
		o.Rate, o.Batch, o.Units = float64(o.Batch)/float64(o.Units), 0, 0
	}
	pipeline.Choose(&o.Rate, 0, images, 1, 0.05)
	pipeline.Choose(&o.Steps, 0, images, 100, 1500)
	d, s := &o.Discriminator, &o.Student
	d.Kind = cmp.Or(d.Kind, discriminator.Dense)
	pipeline.Choose(&d.Layers, -1, images, 0, 1)
	pipeline.Choose(&d.Hidden, 0, d.Kind == discriminator.Convolution, 128, 16)
	d.Classes = cmp.Or(d.Classes, "each")
	seen := "cosines"
	if d.Kind == discriminator.Convolution {
		seen = "plain"
	}
	pipeline.Choose(&d.Features, "", images, "pieces", seen)
	pipeline.Choose(&d.Fourier, -1, images, 200, 0)
	side := 14
	if images {
		side = min(side, e.Image().Height, e.Image().Width)
	}
	d.Cosines = cmp.Or(d.Cosines, side)
	pipeline.Choose(&d.Loss, "", images, Wasserstein, Logistic)
	linear := d.Layers == 0 && d.Loss == Wasserstein
	pipeline.Choose(&d.Optimizer, "", linear, "adam", "sgd")
	pipeline.Choose(&d.StepSize, 0, d.Optimizer == "adam", 0.3, 1e-3)
	pipeline.Choose(&d.StepEnd, 0, images, d.StepSize, 0.3*d.StepSize)
	pipeline.Choose(&d.Momentum, -1, d.Optimizer == "adam", 0, 0.5)
	pipeline.Choose(&d.Decay, -1, linear, 0, 1)
	pipeline.Choose(&d.Memory, -1, linear, 0.8, 1)
	pipeline.Choose(&d.Reuse, 0, linear, 1, 10)
	pipeline.Choose(&d.Generated, 0, images, 2000, 512)
	o.Clip = cmp.Or(o.Clip, o.Spec(e, 1).Reach(choices(e)), 1)
	pipeline.Choose(&s.Warp, -1, images, 0, 0.8)
	pipeline.ChooseGenerator(&s.Generator, &s.Hidden, o.generator(1), e)
	s.Follow = cmp.Or(s.Follow, Climb)
	pipeline.Choose(&s.Every, 0, images, 1, 2)
	tilts := s.Follow == Tilt
	pipeline.Choose(&s.Steps, 0, tilts, 2, 30)
	pipeline.Choose(&s.Batch, 0, images, 500, 256)
	pipeline.Choose(&s.StepSize, 0, images, 2e-3, 1e-3)
	pipeline.Choose(&s.StepEnd, 0, images, s.StepSize/20, 0.3*s.StepSize)
	pipeline.Choose(&s.Average, -1, tilts, 0.995, 0.998)
	return o
}

// Spec is the discriminator of chosen options.
func (o Options) Spec(e *encode.Encoder, classes int) discriminator.Spec {
	d := o.Discriminator
	s := discriminator.Spec{
		Features: e.Width(), Numbers: e.Numbers(), Classes: classes, Kind: d.Kind, Hidden: d.Hidden, Layers: d.Layers,
		Each: d.Classes == "each", Standard: d.Features == "standard", Pieces: d.Features == "pieces",
		Fourier: d.Fourier, Seed: fourierSeed,
	}
	if i := e.Image(); i != nil {
		s.Image = nn.Shape{Height: i.Height, Width: i.Width, Channels: i.Channels}
		if d.Features == "cosines" {
			s.Cosines = d.Cosines * d.Cosines * i.Channels
		}
	}
	return s
}

// fourierSeed draws the random features. It is public, and the same in all runs.
const fourierSeed = 1

func (o Options) generator(classes int) pipeline.GeneratorSpec {
	s := o.Student
	return pipeline.GeneratorSpec{Kind: s.Generator, Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers,
		Classes: classes, Warp: s.Warp}
}

// choices is the number of columns that are not numbers, including flags of empty cells.
func choices(e *encode.Encoder) int {
	n := 0
	for _, h := range e.Heads() {
		if h.Kind != encode.HeadNumber {
			n++
		}
	}
	return n
}
