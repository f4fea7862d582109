package dpgan

import (
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// maxSteps bounds a run: each step is a round trip and an entry of the ledger.
const maxSteps = 100_000

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("dpgan")
	c.Check(o.Steps >= 0 && o.Steps <= maxSteps, "steps: %d is not between 0 and %d", o.Steps, maxSteps)
	c.Chosen("rate", o.Rate, 0, 1e-9, 1)
	c.Check(o.Batch >= 0, "batch: %d is below 0", o.Batch)
	c.Check(o.Units >= 0, "units: %d is below 0", o.Units)
	c.Check(o.Batch <= 0 || o.Units != 0, "batch: %d needs units, the public number of privacy units of all sites",
		o.Batch)
	c.Check(o.Units <= 0 || o.Batch != 0, "units: %d is set without batch; set both, or rate instead", o.Units)
	c.Check(o.Units <= 0 || o.Batch <= o.Units, "batch: %d is larger than units, %d; use a smaller batch",
		o.Batch, o.Units)
	c.Check(o.Rate == 0 || o.Batch == 0, "batch: %d and rate: %v both set the size of a sample; set only one", o.Batch,
		o.Rate)
	c.Chosen("clip", o.Clip, 0, 1e-9, 1e9)
	c.Noise(o.Noise)
	c.Positive("class_epsilon", o.ClassEpsilon)
	c.Rounds(o.Quorum, o.Deadline)
	d := o.Discriminator
	c.OneOf("discriminator.kind", d.Kind, "", "dense", "convolution")
	c.Between("discriminator.hidden", float64(d.Hidden), 0, 65536)
	c.Between("discriminator.layers", float64(d.Layers), -1, 16)
	c.OneOf("discriminator.classes", d.Classes, "", "told", "each")
	c.OneOf("discriminator.features", d.Features, "", "pieces", "standard", "plain", "cosines")
	c.Between("discriminator.fourier", float64(d.Fourier), -1, discriminator.MaxParameters)
	c.Between("discriminator.cosines", float64(d.Cosines), 0, 1024)
	c.OneOf("discriminator.loss", string(d.Loss), "", string(Logistic), string(Wasserstein), string(KLWGAN))
	c.OneOf("discriminator.optimizer", d.Optimizer, "", "adam", "sgd")
	c.Chosen("discriminator.step_size", d.StepSize, 0, 1e-12, 1e6)
	c.Chosen("discriminator.step_end", d.StepEnd, 0, 1e-12, 1e6)
	c.Decay("discriminator.momentum", d.Momentum)
	c.Check((d.Decay >= 0 || d.Decay == -1) && !(d.Decay > 0 && d.Decay*max(d.StepSize, d.StepEnd) >= 1),
		"discriminator.decay: %v is not at least 0 and below 1/step_size and 1/step_end, or -1 to have it chosen",
		d.Decay)
	c.Chosen("discriminator.memory", d.Memory, -1, 0, 1)
	c.Between("discriminator.reuse", float64(d.Reuse), 0, 1000)
	c.Between("discriminator.generated", float64(d.Generated), 0, 1<<20)
	s := o.Student
	c.OneOf("student.generator", s.Generator, "", "dense", "convolution")
	c.Chosen("student.warp", s.Warp, -1, 0, 10)
	c.Between("student.noise", float64(s.Noise), 1, 4096)
	c.Between("student.hidden", float64(s.Hidden), 0, 4096)
	c.Between("student.layers", float64(s.Layers), 1, 16)
	c.OneOf("student.follow", string(s.Follow), "", string(Climb), string(Tilt))
	c.Between("student.every", float64(s.Every), 0, 1e6)
	c.Check(s.Adapt >= 0 && s.Adapt < 1, "student.adapt: %v is not at least 0 (n_D stays) and below 1", s.Adapt)
	c.Between("student.steps", float64(s.Steps), 0, 1e6)
	c.Between("student.batch", float64(s.Batch), 0, 1<<20)
	c.Chosen("student.step_size", s.StepSize, 0, 1e-12, 1e3)
	c.Chosen("student.step_end", s.StepEnd, 0, 1e-12, 1e3)
	c.Decay("student.average", s.Average)
	c.Between("student.keep", float64(s.Keep), 0, 1000)
	return c.Err()
}

// CheckFor reports what cannot work for records of an encoder; o has been
// [Options.ChosenFor].
func (o Options) CheckFor(e *encode.Encoder, classes int) error {
	if err := o.Validate(); err != nil {
		return err // a chosen value may conflict with another field
	}
	c := pipeline.NewChecks("dpgan")
	image, d, s := e.Image(), o.Discriminator, o.Student
	images := image != nil
	c.ImagesOnly(e, map[string]bool{
		"discriminator.kind: convolution": d.Kind == "convolution", "discriminator.features: " +
			"cosines": d.Features == "cosines",
		"student.generator: convolution": s.Generator == "convolution", "student.warp": s.Warp > 0,
	})
	if images {
		side := min(image.Height, image.Width)
		c.Check(d.Features != "cosines" || d.Cosines <= side, "discriminator.cosines: %d frequencies are more than "+
			"the pixels of an image's side, %d; use at most that many", d.Cosines, side)
		c.Check(s.Follow != Tilt, "student.follow: tilt is for tables only; use climb")
		c.Check(d.Features != "standard" && d.Features != "pieces",
			"discriminator.features: %s is for tables only; use plain or cosines", d.Features)
	}
	c.Check(s.Follow != Tilt || d.Reuse <= 1, "discriminator.reuse: %d steps on a release are for a generator that "+
		"climbs; use 1 with student.follow: tilt", d.Reuse)
	c.Check(s.Follow != Tilt || d.Loss == Logistic, "student.follow: tilt needs a discriminator whose score is a "+
		"log-ratio of densities, which loss %s does not give; use loss logistic, or climb", d.Loss)
	if err := c.Err(); err != nil {
		return err // the checks below need valid fields
	}
	c.Take("discriminator", o.Spec(e, classes).Check())
	c.Take("student", o.generator(1).Check(e))
	return c.Err()
}
