package gpate

import "github.com/conclave-dp/conclave/partition"

// ChosenFor returns the options with everything that is left to be chosen filled in for
// the records of an encoder, of images or of tables.
func (o Options) ChosenFor(e *partition.Encoder) Options {
	images := e.Image() != nil
	pick := func(v *int, table, image int) {
		if *v == 0 {
			if *v = table; images {
				*v = image
			}
		}
	}
	name := func(v *string, table, image string) {
		if *v == "" {
			if *v = table; images {
				*v = image
			}
		}
	}
	name(&o.Teacher.Model, "logistic", "energy")
	pick(&o.Teacher.Hidden, 16, 64)
	name(&o.Teacher.Features, "standard", "cosines")
	name(&o.Teacher.Memory, "run", "round")
	if o.Teacher.Cosines == 0 {
		if o.Teacher.Cosines = 10; images {
			o.Teacher.Cosines = min(10, e.Image().Height, e.Image().Width)
		}
	}
	features := o.Seen(e)
	pick(&o.Teacher.Steps, 10, 20)
	pick(&o.Teacher.Training, 64, 200)
	if o.Teacher.Rate == 0 {
		if o.Teacher.Rate = 0.1; images {
			o.Teacher.Rate = 2e-3
		}
	}
	if o.Teacher.Decay < 0 {
		if o.Teacher.Decay = 0.1; images {
			o.Teacher.Decay = 0
		}
	}
	if o.Student.Average < 0 {
		if o.Student.Average = 0.998; images {
			o.Student.Average = 0.99
		}
	}
	if o.Student.Warp < 0 {
		if o.Student.Warp = 0; images {
			o.Student.Warp = 0.8
		}
	}
	pick(&o.Student.Hidden, 64, 256)
	name((*string)(&o.Student.Follow), string(Tilt), string(Move))
	pick(&o.Student.GeneratorSteps, 100, 20)
	if o.Student.Step == 0 {
		if o.Student.Step = 0.5; o.Student.Follow == Move {
			o.Student.Step = 4
		}
	}
	if o.Student.StepEnd == 0 {
		o.Student.StepEnd = min(0.5, o.Student.Step)
	}
	if o.Answers == Sum {
		pick(&o.Rounds, 20, 40)
		pick(&o.Directions, features, features)
		pick(&o.Records, 64, min(200, maxEntries/max(1, o.Directions)))
		return o
	}
	pick(&o.Rounds, 10, 20)
	pick(&o.Records, 16, 16)
	pick(&o.Directions, min(5, features), min(10, features))
	return o
}

// Seen is the length of a gradient: the number of features that teachers see, but for
// the squares of standard ones.
func (o Options) Seen(e *partition.Encoder) int {
	if image := e.Image(); image != nil && o.Teacher.Features == "cosines" {
		return o.Teacher.Cosines * o.Teacher.Cosines * image.Channels
	}
	return e.Width()
}
