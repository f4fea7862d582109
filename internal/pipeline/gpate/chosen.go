package gpate

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// ChosenFor returns the options with everything that is left to be chosen filled in for
// the records of an encoder, of images or of tables.
func (o Options) ChosenFor(e *encode.Encoder) Options {
	images := e.Image() != nil
	pipeline.Choose(&o.Teacher.Model, "", images, "logistic", "energy")
	pipeline.Choose(&o.Teacher.Hidden, 0, images, 16, 64)
	pipeline.Choose(&o.Teacher.Features, "", images, "standard", "cosines")
	pipeline.Choose(&o.Teacher.Memory, "", images, "run", "round")
	side := 10
	if images {
		side = min(side, e.Image().Height, e.Image().Width)
	}
	pipeline.Choose(&o.Teacher.Cosines, 0, images, side, side)
	pipeline.Choose(&o.Teacher.Steps, 0, images, 10, 20)
	pipeline.Choose(&o.Teacher.Training, 0, images, 64, 200)
	pipeline.Choose(&o.Teacher.Rate, 0, images, 0.1, 2e-3)
	pipeline.Choose(&o.Teacher.Decay, -1, images, 0.1, 0)
	pipeline.Choose(&o.Student.Average, -1, images, 0.998, 0.99)
	pipeline.Choose(&o.Student.Warp, -1, images, 0, 0.8)
	pipeline.Choose(&o.Student.Hidden, 0, images, 64, 256)
	pipeline.Choose(&o.Student.Follow, "", images, Tilt, Move)
	pipeline.Choose(&o.Student.GeneratorSteps, 0, images, 100, 20)
	pipeline.Choose(&o.Student.Step, 0, o.Student.Follow == Move, 0.5, 4)
	end := min(0.5, o.Student.Step)
	pipeline.Choose(&o.Student.StepEnd, 0, images, end, end)
	features := o.Seen(e)
	if o.Answers == Sum {
		pipeline.Choose(&o.Rounds, 0, images, 20, 40)
		pipeline.Choose(&o.Directions, 0, images, features, features)
		pipeline.Choose(&o.Records, 0, images, 64, min(200, maxEntries/max(1, o.Directions)))
		return o
	}
	pipeline.Choose(&o.Rounds, 0, images, 10, 20)
	pipeline.Choose(&o.Records, 0, images, 16, 16)
	pipeline.Choose(&o.Directions, 0, images, min(5, features), min(10, features))
	return o
}

// Seen is the length of a gradient: the number of features that teachers see, but for
// the squares of standard ones.
func (o Options) Seen(e *encode.Encoder) int {
	if image := e.Image(); image != nil && o.Teacher.Features == "cosines" {
		return o.Teacher.Cosines * o.Teacher.Cosines * image.Channels
	}
	return e.Width()
}
