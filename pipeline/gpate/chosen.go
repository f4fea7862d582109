package gpate

import "github.com/conclave-dp/conclave/partition"

// ChosenFor returns the options with everything that is left to be chosen filled in for
// the records of an encoder, of images or of tables.
func (o Options) ChosenFor(e *partition.Encoder) Options {
	images := e.Image() != nil
	choose(&o.Teacher.Model, "", images, "logistic", "energy")
	choose(&o.Teacher.Hidden, 0, images, 16, 64)
	choose(&o.Teacher.Features, "", images, "standard", "cosines")
	choose(&o.Teacher.Memory, "", images, "run", "round")
	side := 10
	if images {
		side = min(side, e.Image().Height, e.Image().Width)
	}
	choose(&o.Teacher.Cosines, 0, images, side, side)
	choose(&o.Teacher.Steps, 0, images, 10, 20)
	choose(&o.Teacher.Training, 0, images, 64, 200)
	choose(&o.Teacher.Rate, 0, images, 0.1, 2e-3)
	choose(&o.Teacher.Decay, -1, images, 0.1, 0)
	choose(&o.Student.Average, -1, images, 0.998, 0.99)
	choose(&o.Student.Warp, -1, images, 0, 0.8)
	choose(&o.Student.Hidden, 0, images, 64, 256)
	choose(&o.Student.Follow, "", images, Tilt, Move)
	choose(&o.Student.GeneratorSteps, 0, images, 100, 20)
	choose(&o.Student.Step, 0, o.Student.Follow == Move, 0.5, 4)
	end := min(0.5, o.Student.Step)
	choose(&o.Student.StepEnd, 0, images, end, end)
	features := o.Seen(e)
	if o.Answers == Sum {
		choose(&o.Rounds, 0, images, 20, 40)
		choose(&o.Directions, 0, images, features, features)
		choose(&o.Records, 0, images, 64, min(200, maxEntries/max(1, o.Directions)))
		return o
	}
	choose(&o.Rounds, 0, images, 10, 20)
	choose(&o.Records, 0, images, 16, 16)
	choose(&o.Directions, 0, images, min(5, features), min(10, features))
	return o
}

// choose gives a value that is unset the first of two, or the second where second is set.
func choose[T comparable](v *T, unset T, second bool, a, b T) {
	if *v != unset {
		return
	}
	if *v = a; second {
		*v = b
	}
}

// Seen is the length of a gradient: the number of features that teachers see, but for
// the squares of standard ones.
func (o Options) Seen(e *partition.Encoder) int {
	if image := e.Image(); image != nil && o.Teacher.Features == "cosines" {
		return o.Teacher.Cosines * o.Teacher.Cosines * image.Channels
	}
	return e.Width()
}
