package gpate

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Answers names how gradients are released.
type Answers string

// The kinds of answers.
const (
	// Sum releases the sum of the teachers' clipped gradients with Gaussian noise.
	Sum Answers = "sum"
	// Histogram releases the noisy counts of all bins of each vote; their mean is used.
	Histogram Answers = "histogram"
	// Winner releases the winning bin of each vote, as the paper does.
	Winner Answers = "winner"
)

// Follow names how the generator follows the released steps.
type Follow string

// The ways to follow.
const (
	// Tilt fits a discriminator to the steps and moves the generator to its own
	// distribution tilted by it; of tables only.
	Tilt Follow = "tilt"
	// Move fits the generator to its records moved by the steps, as the paper does.
	Move Follow = "move"
)

// Options are the `gpate:` part of a run. The zero value of a field is not its
// default; start from [DefaultOptions].
type Options struct {
	// Answers: sum (default; one Gaussian release a round, whatever the number of
	// records and directions), histogram (votes; the mean of the noisy counts of the
	// bins) or winner (votes; the winning bin, the paper's).
	Answers Answers `yaml:"answers"`
	// Rounds and Records are the number of rounds, and of generated records whose
	// gradients are asked for in each. More rounds mean more noise in each, more
	// records of votes do too. Defaults: 0, chosen: 20 rounds of 64 records of tables,
	// 40 rounds of 200 images (fewer where an aggregator would not take so many numbers);
	// of votes 10 rounds of 16 records, 20 of images, as every vote has to be paid for.
	Rounds  int `yaml:"rounds"`
	Records int `yaml:"records"`
	// Directions is the paper's k, the number of random directions on which gradients
	// are projected. Default: 0, chosen: 5 of tables and 10 of images for votes (the
	// paper's), all features for sums, which need no projection.
	Directions int `yaml:"directions"`
	// Bins is the paper's B, Clip its c: votes are for equal parts of (-c, c). Defaults:
	// 10 and 0.0001.
	Bins int     `yaml:"bins"`
	Clip float64 `yaml:"clip"`
	// Norm bounds the length of a teacher's vector of all gradients of a round, of
	// sums. Default: 0, all vectors are made equally long.
	Norm float64 `yaml:"norm"`
	// Mechanism of votes: confident-gnmax (default; the paper's) or gnmax.
	Mechanism string `yaml:"mechanism"`
	// Noise is the noise of each count of votes, the paper's sigma2, or of sums the
	// noise multiplier. Default: 0, the least that the budget allows.
	Noise float64 `yaml:"noise"`
	// Threshold and ThresholdNoise belong to confident-gnmax: the share of teachers
	// that must agree (default 0.5), and the noise of that test, the paper's sigma1, as
	// a multiple of the answer's (default 3).
	Threshold      float64 `yaml:"threshold"`
	ThresholdNoise float64 `yaml:"threshold_noise"`
	// ClassEpsilon is paid for the class shares, a part of the run's epsilon. Default:
	// 0.01, the paper's.
	ClassEpsilon float64 `yaml:"class_epsilon"`
	// Quorum is the share of the teachers without which a round does not count.
	// Default: 0.9.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the rest once a quorum is
	// connected. Default: 300; teachers of images take their time.
	Deadline float64 `yaml:"deadline"`

	Teacher Teacher `yaml:"teacher"`
	Student Student `yaml:"student"`
}

// Teacher says how teachers learn.
type Teacher struct {
	// Model: logistic, hidden (one hidden layer), convolution (two, of images) or energy
	// (no network: the energy distance between a teacher's records and generated ones,
	// which needs no training and loses nothing by small partitions). Default: chosen,
	// logistic for tables and energy for images.
	Model string `yaml:"model"`
	// Hidden is the width of the hidden layer, or the channels of the first
	// convolution. Default: 0, chosen: 16 for tables and 64 for images.
	Hidden int `yaml:"hidden"`
	// Networks: each (a network for every class) or one (for all classes, told the
	// class). Default: each.
	Networks string `yaml:"networks"`
	// Features: standard (in units of the round's generated records, with the squares
	// of numbers), plain (the encoded columns) or cosines (the coefficients of an image
	// at its lowest frequencies). Gradients are by what teachers see. Default: chosen,
	// standard for tables and cosines for images.
	Features string `yaml:"features"`
	// Cosines is how many frequencies in each direction are seen of an image, of
	// cosines. Default: 0, chosen: 10, or
	// the side of smaller images. More are sharper and leave more noise on each.
	Cosines int `yaml:"cosines"`
	// Memory: run (teachers go on learning over the run) or round (they begin anew in
	// every round, so that a node keeps nothing of them). Default: chosen, run for tables
	// and round for images.
	Memory string `yaml:"memory"`
	// Steps is the number of optimizer steps in each round. Default: 0, chosen: 10 for
	// tables and 20 for images.
	Steps int `yaml:"steps"`
	// Batch bounds the real and the generated records of a class in a step.
	// Default: 32.
	Batch int `yaml:"batch"`
	// Training is the number of generated records that teachers train on in each
	// round. Default: 0, chosen: 64 for tables, and 200 for images.
	Training int `yaml:"training"`
	// Rate is the step size, Decay pulls the weights to zero. Defaults: 0 and -1, chosen: 0.1
	// and 0.1 for tables, 0.002 and 0 for images.
	Rate  float64 `yaml:"rate"`
	Decay float64 `yaml:"decay"`
}

// Student says how the student learns. Its steps are free of cost.
type Student struct {
	// Generator: dense (default) or convolution (of images).
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random turns, shears, scales and shifts that end
	// a generator of images, which it then need not learn. Default: -1, chosen: 0 for
	// tables, 0.8 for images.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs of the generator. Default: 16.
	Noise int `yaml:"noise"`
	// Hidden and Layers shape the generator. Defaults: chosen, 64 for tables and 256 for
	// images; 2.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
	// Follow: tilt or move (the paper's). Default: chosen, tilt for tables and move
	// for images.
	Follow Follow `yaml:"follow"`
	// Step is how far a round moves: to tilt, a column in units of its spread where all
	// teachers agree; to move, a record on average, as the length of the change of its
	// features. StepEnd is the same for the last round; rounds between are between.
	// Defaults: 0, chosen: 0.5 and 0.5 to tilt, 4 and 0.5 to move.
	Step    float64 `yaml:"step"`
	StepEnd float64 `yaml:"step_end"`
	// GeneratorSteps are taken in each round, GeneratorRate is Adam's step size.
	// Defaults: 0, chosen: 100 for tables and 20 for images; 0.001.
	GeneratorSteps int     `yaml:"generator_steps"`
	GeneratorRate  float64 `yaml:"generator_rate"`
	// Average is the decay of the generator's moving average per step. Default: -1,
	// chosen: 0.998 for tables, some rounds, and 0.99 for images.
	Average float64 `yaml:"average"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options {
	return Options{
		Answers: Sum, Bins: 10, Clip: 1e-4, Mechanism: "confident-gnmax", Threshold: 0.5, ThresholdNoise: 3,
		ClassEpsilon: 0.01, Quorum: 0.9, Deadline: 300,
		Teacher: Teacher{Networks: "each", Batch: 32, Decay: -1},
		Student: Student{Generator: "dense", Warp: -1, Noise: 16, Layers: 2, GeneratorRate: 1e-3, Average: -1},
	}
}

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
