package embed

import (
	"math"

	"github.com/conclave-dp/conclave/embedding"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline"
)

// ChosenFor returns the options with everything that is left to be chosen filled in for
// the records of an encoder, of images or of tables.
func (o Options) ChosenFor(e *partition.Encoder, classes int) Options {
	images := e.Image() != nil
	f, t, s := &o.Features, &o.Fit, &o.Student
	pipeline.Choose(&f.Count, 0, images, 0.2, 0.1)
	pipeline.Choose(&f.Columns, -1, images, 1, 0)
	pipeline.Choose(&f.Pairs, -1, images, 1, 0)
	pipeline.Choose(&f.Bins, 0, false, 12, 0)
	pipeline.Choose(&f.MostPairs, 0, false, 200, 0)
	pipeline.Choose(&f.Fourier, -1, false, 1, 0)
	pipeline.Choose(&f.Waves, 0, images, 200, 500)
	if len(f.Scales) == 0 {
		f.Scales = []float64{1.25}
		if images {
			f.Scales = imageScales(e.Width())
		}
	}
	pipeline.Choose(&t.Steps, 0, images, 2000, 2500)
	pipeline.Choose(&t.Batch, 0, images, 500, 200)
	pipeline.Choose(&t.StepSize, 0, false, 2e-3, 0)
	pipeline.Choose(&t.StepEnd, 0, false, t.StepSize/20, 0)
	pipeline.Choose(&t.Memory, -1, images, 0.9, 0.97)
	pipeline.Choose(&t.Average, -1, images, 0.995, 0.99)
	pipeline.Choose(&s.Warp, -1, images, 0, 1)
	pipeline.Choose(&s.Noise, 0, false, 16, 0)
	pipeline.Choose(&s.Layers, 0, false, 2, 0)
	o.chooseGenerator(e)
	return o
}

// featureSeed draws the random features. It is public, and the same in all runs.
const featureSeed = 1

// parts are the groups of features. That of the count is the first.
func (o Options) parts() []embedding.Part {
	f := o.Features
	parts := []embedding.Part{{Kind: embedding.Ones, Weight: f.Count}}
	if f.Columns > 0 {
		parts = append(parts, embedding.Part{Kind: embedding.Columns, Weight: f.Columns, Bins: f.Bins})
	}
	if f.Pairs > 0 {
		parts = append(parts, embedding.Part{Kind: embedding.Pairs, Weight: f.Pairs, Bins: f.Bins, Count: f.MostPairs, Seed: featureSeed})
	}
	if f.Fourier > 0 {
		for i, scale := range f.Scales {
			parts = append(parts, embedding.Part{Kind: embedding.Fourier, Weight: f.Fourier / math.Sqrt(float64(len(f.Scales))), Count: f.Waves, Spread: 1 / scale, Seed: featureSeed + uint64(i)})
		}
	}
	return parts
}

// question is what chosen options ask, with the features.
func (o Options) question(e *partition.Encoder, classes int) (*Question, *embedding.Features, error) {
	parts := o.parts()
	f, err := embedding.New(e, classes, parts)
	if err != nil {
		return nil, nil, err
	}
	return &Question{Classes: classes, Parts: parts, Entries: classes * f.Count(), Norm: f.Norm()}, f, nil
}

// Question is what chosen options ask.
func (o Options) Question(e *partition.Encoder, classes int) (*Question, error) {
	q, _, err := o.question(e, classes)
	return q, err
}

// generator is that of a student.
func (o Options) generator(classes int) pipeline.GeneratorSpec {
	s := o.Student
	return pipeline.GeneratorSpec{Kind: s.Generator, Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers, Classes: classes, Warp: s.Warp}
}

// imageScales are two length scales on pixels from -1 to 1: 20 and 10 for 28 x 28 of them, where
// two digits are some 20 apart. An image of n numbers is a vector whose length grows as sqrt(n),
// and so do they. Short waves see strokes, but with them alone no image that a generator begins
// with is like a real one, and there may be nothing to climb; long ones lead it there.
func imageScales(features int) []float64 {
	side := math.Sqrt(float64(features))
	return []float64{side / 1.4, side / 2.8}
}

// chooseGenerator takes convolutions for images that can be made by doubling.
func (o *Options) chooseGenerator(e *partition.Encoder) {
	s := &o.Student
	convolution := *o
	convolution.Student.Generator, convolution.Student.Hidden = "convolution", 64
	pipeline.Choose(&s.Generator, "", e.Image() != nil && convolution.generator(1).Check(e) == nil, "dense", "convolution")
	wide := 128
	if s.Generator == "convolution" {
		wide = 64
	} else if e.Image() != nil {
		wide = 256
	}
	pipeline.Choose(&s.Hidden, 0, false, wide, 0)
}
