package dpgan

import (
	"errors"
	"fmt"
	"math"

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
	c.Check(o.Rate == 0 || o.Rate >= 1e-9 && o.Rate <= 1, "rate: %v is not between 1e-9 and 1, or 0 to have it chosen",
		o.Rate)
	c.Check(o.Batch >= 0, "batch: %d is below 0", o.Batch)
	c.Check(o.Units >= 0, "units: %d is below 0", o.Units)
	c.Check(o.Batch <= 0 || o.Units != 0, "batch: %d needs units, the public number of privacy units of all sites",
		o.Batch)
	c.Check(o.Units <= 0 || o.Batch != 0, "units: %d is set without batch; set both, or rate in place of them", o.Units)
	c.Check(o.Units <= 0 || o.Batch <= o.Units, "batch: %d is larger than units, %d; a step cannot take more than all",
		o.Batch, o.Units)
	c.Check(o.Rate == 0 || o.Batch == 0, "batch: %d and rate: %v both say how large a sample is; set one", o.Batch,
		o.Rate)
	c.Check(o.Clip == 0 || o.Clip >= 1e-9 && o.Clip <= 1e9,
		"clip: %v is not between 1e-9 and 1e9, or 0 to have it chosen", o.Clip)
	c.Check(o.Noise >= 0 && !math.IsInf(o.Noise, 0), "noise: %v is not 0 (chosen) or above", o.Noise)
	c.Positive("class_epsilon", o.ClassEpsilon)
	c.Check(o.Quorum > 0 && o.Quorum <= 1, "quorum: %v is not a share of the teachers, above 0 and at most 1", o.Quorum)
	c.Between("deadline", o.Deadline, 1e-3, 24*3600)
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
	c.Check(d.StepSize == 0 || d.StepSize >= 1e-12 && d.StepSize <= 1e6,
		"discriminator.step_size: %v is not between 1e-12 and 1e6, or 0 to have it chosen", d.StepSize)
	c.Check(d.StepEnd == 0 || d.StepEnd >= 1e-12 && d.StepEnd <= 1e6,
		"discriminator.step_end: %v is not between 1e-12 and 1e6, or 0 to have it chosen", d.StepEnd)
	c.Check(d.Momentum == -1 || d.Momentum >= 0 && d.Momentum < 1,
		"discriminator.momentum: %v is not at least 0 and below 1, or -1 to have it chosen", d.Momentum)
	c.Check((d.Decay >= 0 || d.Decay == -1) && !(d.Decay > 0 && d.Decay*max(d.StepSize, d.StepEnd) >= 1),
		"discriminator.decay: %v is not at least 0 and below 1/step_size and 1/step_end, or -1 to have it chosen",
		d.Decay)
	c.Check(d.Memory == -1 || d.Memory >= 0 && d.Memory <= 1,
		"discriminator.memory: %v is not between 0 and 1, or -1 to have it chosen", d.Memory)
	c.Between("discriminator.reuse", float64(d.Reuse), 0, 1000)
	c.Between("discriminator.generated", float64(d.Generated), 0, 1<<20)
	s := o.Student
	c.OneOf("student.generator", s.Generator, "", "dense", "convolution")
	c.Check(s.Warp == -1 || s.Warp >= 0 && s.Warp <= 10,
		"student.warp: %v is not between 0 and 10, or -1 to have it chosen", s.Warp)
	c.Between("student.noise", float64(s.Noise), 1, 4096)
	c.Between("student.hidden", float64(s.Hidden), 0, 4096)
	c.Between("student.layers", float64(s.Layers), 1, 16)
	c.OneOf("student.follow", string(s.Follow), "", string(Climb), string(Tilt))
	c.Between("student.every", float64(s.Every), 0, 1e6)
	c.Check(s.Adapt >= 0 && s.Adapt < 1, "student.adapt: %v is not at least 0 (n_D stays) and below 1", s.Adapt)
	c.Between("student.steps", float64(s.Steps), 0, 1e6)
	c.Between("student.batch", float64(s.Batch), 0, 1<<20)
	c.Check(s.StepSize == 0 || s.StepSize >= 1e-12 && s.StepSize <= 1e3,
		"student.step_size: %v is not between 1e-12 and 1000, or 0 to have it chosen", s.StepSize)
	c.Check(s.StepEnd == 0 || s.StepEnd >= 1e-12 && s.StepEnd <= 1e3,
		"student.step_end: %v is not between 1e-12 and 1000, or 0 to have it chosen", s.StepEnd)
	c.Check(s.Average == -1 || s.Average >= 0 && s.Average < 1,
		"student.average: %v is not at least 0 and below 1, or -1 to have it chosen", s.Average)
	c.Between("student.keep", float64(s.Keep), 0, 1000)
	return c.Err()
}

// CheckFor reports what cannot work for records of an encoder; o has been
// [Options.ChosenFor].
func (o Options) CheckFor(e *encode.Encoder, classes int) error {
	if err := o.Validate(); err != nil {
		return err // what was chosen for one field may not go with another
	}
	var errs []error
	image := e.Image()
	images := image != nil
	d, s := o.Discriminator, o.Student
	for _, f := range []struct {
		field string
		of    bool
	}{
		{"discriminator.kind: convolution", d.Kind == "convolution"},
		{"discriminator.features: cosines", d.Features == "cosines"},
		{"student.generator: convolution", s.Generator == "convolution"}, {"student.warp", s.Warp > 0},
	} {
		if f.of && !images {
			errs = append(errs, fmt.Errorf("dpgan.%s is for images only; use another", f.field))
		}
	}
	if k := d.Cosines; d.Features == "cosines" && images && k > min(image.Height, image.Width) {
		errs = append(errs, fmt.Errorf("dpgan.discriminator.cosines: %d frequencies are more than the pixels of an "+
			"image's side, %d; use at most that many", k, min(image.Height, image.Width)))
	}
	if images && s.Follow == Tilt {
		errs = append(errs, errors.New("dpgan.student.follow: tilt is for tables only; use climb"))
	}
	if images && (d.Features == "standard" || d.Features == "pieces") {
		errs = append(errs, fmt.Errorf("dpgan.discriminator.features: %s is for tables only; use plain or cosines",
			d.Features))
	}
	if s.Follow == Tilt && d.Reuse > 1 {
		errs = append(errs, fmt.Errorf("dpgan.discriminator.reuse: %d steps on a release are for a generator that "+
			"climbs; use 1 with student.follow: tilt", d.Reuse))
	}
	if s.Follow == Tilt && d.Loss != Logistic {
		errs = append(errs, fmt.Errorf("dpgan.student.follow: tilt needs a discriminator whose score is a log-ratio "+
			"of densities, and loss %s gives none; use loss logistic, or climb", d.Loss))
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // what follows takes the rest for granted
	}
	if err := o.Spec(e, classes).Check(); err != nil {
		errs = append(errs, fmt.Errorf("dpgan.discriminator: %w", err))
	}
	if err := o.generator(1).Check(e); err != nil {
		errs = append(errs, fmt.Errorf("dpgan.student: %w", err))
	}
	return errors.Join(errs...)
}
