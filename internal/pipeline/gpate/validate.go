package gpate

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("gpate")
	c.OneOf("answers", string(o.Answers), string(Sum), string(Histogram), string(Winner))
	c.Between("rounds", float64(o.Rounds), 0, 1e6)
	c.Between("records", float64(o.Records), 0, 65536)
	c.Between("directions", float64(o.Directions), 0, 1<<20)
	c.Between("bins", float64(o.Bins), 2, 256)
	c.Between("clip", o.Clip, 1e-30, 1e30)
	c.Check(o.Norm == 0 || o.Norm >= 1e-20 && o.Norm <= 1e20, "norm: %v is not 0 (all equal) or between 1e-20 and 1e20",
		o.Norm)
	c.OneOf("mechanism", o.Mechanism, "confident-gnmax", "gnmax")
	c.Noise(o.Noise)
	c.Check(o.Threshold > 0 && o.Threshold <= 1, "threshold: %v is not a share of the teachers, above 0 and at most 1",
		o.Threshold)
	c.Positive("threshold_noise", o.ThresholdNoise)
	c.Positive("class_epsilon", o.ClassEpsilon)
	c.Rounds(o.Quorum, o.Deadline)
	c.OneOf("teacher.model", o.Teacher.Model, "", "logistic", "hidden", "convolution", "energy")
	c.Between("teacher.hidden", float64(o.Teacher.Hidden), 0, 4096)
	c.OneOf("teacher.networks", o.Teacher.Networks, "each", "one")
	c.Between("teacher.cosines", float64(o.Teacher.Cosines), 0, 1024)
	c.OneOf("teacher.memory", o.Teacher.Memory, "", "run", "round")
	c.OneOf("teacher.features", o.Teacher.Features, "", "standard", "plain", "cosines")
	c.Between("teacher.steps", float64(o.Teacher.Steps), 0, 10000)
	c.Between("teacher.batch", float64(o.Teacher.Batch), 1, 1<<12)
	c.Between("teacher.training", float64(o.Teacher.Training), 0, 65536)
	c.Chosen("teacher.rate", o.Teacher.Rate, 0, 1e-12, 100)
	c.Check((o.Teacher.Decay >= 0 || o.Teacher.Decay == -1) &&
		!(o.Teacher.Decay > 0 && o.Teacher.Decay*o.Teacher.Rate >= 1),
		"teacher.decay: %v is not at least 0 and below 1/rate, or -1 to have it chosen", o.Teacher.Decay)
	c.OneOf("student.generator", o.Student.Generator, "dense", "convolution")
	c.Chosen("student.warp", o.Student.Warp, -1, 0, 10)
	c.Between("student.noise", float64(o.Student.Noise), 1, 4096)
	c.Between("student.hidden", float64(o.Student.Hidden), 0, 4096)
	c.Between("student.layers", float64(o.Student.Layers), 1, 16)
	c.OneOf("student.follow", string(o.Student.Follow), "", string(Tilt), string(Move))
	c.Between("student.step", o.Student.Step, 0, 1e6)
	c.Between("student.step_end", o.Student.StepEnd, 0, 1e6)
	c.Between("student.generator_steps", float64(o.Student.GeneratorSteps), 0, 1e6)
	c.Positive("student.generator_rate", o.Student.GeneratorRate)
	c.Decay("student.average", o.Student.Average)
	return c.Err()
}

// CheckFor reports what cannot work for records of an encoder; o has been
// [Options.Chosen].
func (o Options) CheckFor(e *encode.Encoder) error {
	if err := o.Validate(); err != nil {
		return err // a chosen value may conflict with another field
	}
	c := pipeline.NewChecks("gpate")
	t, s, seen := o.Teacher, o.Student, o.Seen(e)
	image := e.Image()
	c.ImagesOnly(e, map[string]bool{
		"teacher.model: convolution": t.Model == "convolution", "teacher.features: cosines": t.Features == "cosines",
		"student.generator: convolution": s.Generator == "convolution", "student.warp": s.Warp > 0,
	})
	if image != nil {
		side := min(image.Height, image.Width)
		c.Check(t.Features != "cosines" || t.Cosines <= side, "teacher.cosines: %d frequencies are more than the "+
			"pixels of an image's side, %d; use at most that many", t.Cosines, side)
		c.Check(s.Follow != Tilt, "student.follow: tilt is for tables only; use move")
		c.Check(t.Features != "standard", "teacher.features: standard is for tables only; use cosines or plain")
	}
	c.Check(o.Directions <= seen, "directions: %d are more than the %d features of a record that teachers see; use "+
		"at most that many", o.Directions, seen)
	switch n := o.Records * o.Directions; {
	case o.Answers == Sum:
		c.Check(n <= maxEntries, "records: %d of %d numbers are %d in a round, more than %d; use fewer records, or "+
			"fewer directions", o.Records, o.Directions, n, maxEntries)
	case n > maxQueries:
		c.Check(false, "records: %d with %d directions are %d votes a round, more than %d; use fewer", o.Records,
			o.Directions, n, maxQueries)
	default:
		c.Check(n*o.Bins <= maxEntries, "records: %d with %d directions of %d bins are %d counts a round, more than "+
			"%d; use fewer", o.Records, o.Directions, o.Bins, n*o.Bins, maxEntries)
	}
	n := (o.Records + t.Training) * e.Width()
	c.Check(n <= maxNumbers, "teacher.training: %d records to train on and %d to ask about are %d numbers, more than "+
		"the %d of a round; use fewer", t.Training, o.Records, n, maxNumbers)
	c.Check(t.Networks != "one" || t.Model != "energy", "teacher.networks: energy teachers have no networks; leave it "+
		"out")
	c.Check(t.Networks != "one" || t.Model != "logistic", "teacher.networks: one logistic network for all classes "+
		"cannot see differences within a class; use each, or another model")
	c.Check(t.Model != "convolution" || t.Features == "plain", "teacher.model: convolution needs to see pixels; set "+
		"teacher.features to plain")
	if err := c.Err(); err != nil {
		return err // the checks below need valid fields
	}
	if o.projects(seen) {
		c.Take("directions", o.projected(seen).Check())
	}
	c.Take("student", o.generator(1).Check(e))
	return c.Err()
}

// The limits of an aggregator for one round: maxNumbers of float32 take 60 of 64 MiB.
const (
	maxQueries = 1 << 16
	maxEntries = 1 << 17
	maxNumbers = 15 << 20
)

// projects tells whether gradients of this length are projected.
func (o Options) projects(seen int) bool { return o.Answers != Sum || o.Directions != seen }

// projected returns the directions of a round.
func (o Options) projected(seen int) projection.Spec {
	return projection.Spec{Features: seen, Directions: o.Directions, Clip: o.Clip, Bins: o.Bins}
}

func (o Options) generator(classes int) pipeline.GeneratorSpec {
	s := o.Student
	return pipeline.GeneratorSpec{Kind: s.Generator, Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers,
		Classes: classes, Warp: s.Warp}
}
