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
	// Tilt fits a discriminator to the steps and moves the generator to its own distribution tilted by it. For
	// tables only.
	Tilt Follow = "tilt"
	// Move fits the generator to its records moved by the steps, as the paper does.
	Move Follow = "move"
)

// Options are the section `gpate:` of a run.yaml. This section configures `pipeline: gpate`; see docs/gpate.md. A round
// has room for 65,536 votes (records x directions) or for a sum of 131,072 numbers. With more than two bins it also has
// room for at most 131,072 counts (votes x bins). docs/limits.md#sizes has the limits of messages.
type Options struct {
	// Answers is how gradients are released. `sum`: one noisy sum a round, at one price for all records and
	// directions. `histogram`: votes on bins, released as noisy counts. `winner`: votes on bins, released as the
	// winning bin, as in the paper. With votes every record x direction is charged.
	Answers Answers `yaml:"answers"`
	// Rounds is the number of rounds of gradients. More rounds follow the generator more closely, with more noise in
	// each. With votes 0 takes 10 for tables and 20 for images.
	Rounds int `yaml:"rounds"`
	// Records is the number of generated records in a round for which gradients are asked. With sums
	// more records cost nothing and average the noise, but each number is smaller beside it. With votes each record
	// is charged, and 0 takes 16. For images 0 takes fewer than 200 if a sum has no room for so many numbers.
	Records int `yaml:"records"`
	// Directions is the number of random directions on which gradients are projected, k in the paper. Each round has
	// new ones, at most as many as a teacher sees features. With sums 0 takes all features, without a projection.
	// With votes each direction is charged, and 0 takes 5 for tables and 10 for images, as in the paper.
	Directions int `yaml:"directions"`
	// Bins is the number of parts of (-clip, clip) that votes choose from, B in the paper. More bins are finer and
	// have fewer votes each.
	Bins int `yaml:"bins"`
	// Clip is the largest product with a direction that a vote can express, c in the paper. If it is small, nearly
	// every vote is in an outermost bin and tells only a sign. If it is large, all votes are in the middle.
	Clip float64 `yaml:"clip"`
	// Norm is the largest length of a teacher's vector of a round, for sums; longer vectors are scaled down. If it is
	// too large, vectors drown in the noise. 0 makes all vectors equally long, so that every teacher counts the same.
	// The cost is the same.
	Norm float64 `yaml:"norm"`
	// Mechanism is how noise is added to votes. `confident-gnmax`: charges little for a vote on which teachers
	// disagree, but leaves it without an answer, as in the paper. `gnmax`: answers all votes.
	Mechanism string `yaml:"mechanism"`
	// Noise sets the noise by hand: the noise multiplier for sums; for votes sigma per count (at least 1), which is
	// the answer's sigma for `confident-gnmax`, sigma2 in the paper. With too little noise the run ends early, when
	// the budget is used up, and keeps what it learned; if the budget cannot pay for the first round, the run fails.
	// 0 takes the least noise with which the budget pays for all rounds.
	Noise float64 `yaml:"noise"`
	// Threshold is the share of `teachers` that must agree, for `confident-gnmax`. A lower threshold answers more
	// votes and saves less.
	Threshold float64 `yaml:"threshold"`
	// ThresholdNoise is the noise of that test as a multiple of the answer's noise, for `confident-gnmax`; the paper's
	// sigma1. More makes the test cheaper and more often wrong.
	ThresholdNoise float64 `yaml:"threshold_noise"`
	// ClassEpsilon is what the class shares cost, in epsilon. It is not a share of epsilon, as `pategan.class_share`
	// is. The noise is about 1/`class_epsilon` units a class: 100 by default, the paper's. Raise it if a class has not
	// many more units than that, since the shares would be mostly noise. At most about a fifth of epsilon is possible.
	// It is paid even if the label has no classes, but not with a warm start, which already tells the counts.
	ClassEpsilon float64 `yaml:"class_epsilon"`
	// Quorum is the share of `teachers` that a round needs. With a lower quorum the run goes on without a
	// lost node, with fewer gradients at the same cost.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the other nodes, counted from when a quorum was asked. Teachers
	// of images take their time.
	Deadline float64 `yaml:"deadline"`

	Teacher Teacher `yaml:"teacher"`
	Student Student `yaml:"student"`
}

// Teacher says how teachers learn. Steps of teachers take time, but cost no budget.
type Teacher struct {
	// Model is how a teacher scores records. `energy`: no network; a record scores higher the nearer it is to the
	// teacher's own records of its class than to generated ones. It needs no training and takes little time. The mean
	// of many teachers is what all their records together would say, however few each has. `logistic`: one weight
	// vector; all records of a class have the same gradient but for its size, and for the squares of `standard`.
	// `hidden`: one hidden layer; it needs larger partitions. `convolution`: two convolutions with kernel 4 and
	// stride 2, for images and `plain` features only; much slower.
	Model string `yaml:"model"`
	// Hidden is the width of the hidden layer, or the channels of the first convolution; the second has twice as many.
	Hidden int `yaml:"hidden"`
	// Networks is how classes share networks. `each`: every class has a network, which learns from that class alone.
	// `one`: one network is told the class; it shares what classes have in common and has fewer weights. `one` does
	// not go with `logistic`, whose gradient would not depend on the class, or with `energy`, which has no network.
	Networks string `yaml:"networks"`
	// Features is what a teacher sees; gradients are with respect to it. `standard`: columns in units of the round's
	// generated records, with the squares of numbers; tables only. `cosines`: the coefficients of an image at its
	// lowest frequencies; far fewer numbers to release. `plain`: the encoded columns or pixels.
	Features string `yaml:"features"`
	// Cosines is the number k of k x k frequencies in each channel, for `cosines`; at most the image's smaller side.
	// More are sharper and leave more noise on each. 0 takes 10, or the side of smaller images.
	Cosines int `yaml:"cosines"`
	// Memory is what teachers keep between rounds. `run`: they learn over the whole run, and a node keeps three
	// float32 for each weight of each teacher. `round`: they start again in every round from the same public weights,
	// and a node keeps nothing; each round has to teach them everything.
	Memory string `yaml:"memory"`
	// Steps is the number of optimizer steps in each round.
	Steps int `yaml:"steps"`
	// Batch is the largest number of real records, and of generated records, of a class in a step. A teacher with
	// fewer real records takes the time of a whole batch.
	Batch int `yaml:"batch"`
	// Training is the number of generated records that teachers train on in each round.
	Training int `yaml:"training"`
	// Rate is the step size.
	Rate float64 `yaml:"rate"`
	// Decay is the weight decay. A teacher with fewer records needs more of it.
	Decay float64 `yaml:"decay"`
}

// Student says how the student learns. Steps of the student take time, but cost no budget.
type Student struct {
	// Generator is the generator's network. `dense`: dense layers. `convolution`: transposed convolutions, for images
	// whose height and width 2^`layers` divides; neighbouring pixels come out alike, and it is slower.
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random maps that end the generator of images; 0 means none. At 1 images turn
	// by 0.15 radians, shear by 0.15, grow or shrink by a tenth and shift by a 28th of a side, as standard deviations.
	// It is public knowledge that such images look alike, so the generator need not learn it from answers that cost
	// budget. Use 0 for images for which that is not true.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs of the generator.
	Noise int `yaml:"noise"`
	// Hidden is the width of the generator's layers, or the channels of a convolution's first and smallest grid.
	Hidden int `yaml:"hidden"`
	// Layers is the number of the generator's hidden layers, or how often the grid doubles.
	Layers int `yaml:"layers"`
	// Follow is how the generator follows the released steps. `tilt`: its own distribution is tilted by what the
	// steps say on average, which averages out much noise; tables only. `move`: it is fitted to its records moved by
	// their steps, as in the paper.
	Follow Follow `yaml:"follow"`
	// Step is how far the first round moves. With `tilt`: a column, in units of its spread, if all teachers agree; 0
	// takes 0.5. With `move`: a record on average, as the length of the change of its features; 0 takes 4. More is
	// faster and noisier.
	Step float64 `yaml:"step"`
	// StepEnd is how far the last round moves; it falls evenly over the rounds. 0 takes 0.5, or `step` if that is
	// less.
	StepEnd float64 `yaml:"step_end"`
	// GeneratorSteps is the number of the generator's steps in each round, with `tilt` in each of at most 6 turns of a
	// round. More steps follow more closely.
	GeneratorSteps int `yaml:"generator_steps"`
	// GeneratorRate is the step size of the generator's optimizer, Adam.
	GeneratorRate float64 `yaml:"generator_rate"`
	// Average is the decay of the generator's moving average per step. For tables the default averages some rounds.
	Average float64 `yaml:"average"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options {
	return Options{
		Answers: Sum, Bins: 10, Clip: 1e-4, Mechanism: "confident-gnmax", Threshold: 0.5, ThresholdNoise: 3,
		ClassEpsilon: 0.01, Quorum: 0.9, Deadline: 300,
		Teacher: Teacher{Networks: "each", Batch: 32, Decay: -1},
		Student: Student{Generator: "dense", Warp: -1, Noise: 16, Layers: 2, GeneratorRate: 1e-3, Average: -1},
	}
}

// ChosenFor returns the options with every unset value chosen for the records of an encoder, of images or of
// tables.
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
		pipeline.Choose(&o.Rounds, 0, images, 20, 80)
		pipeline.Choose(&o.Directions, 0, images, features, features)
		pipeline.Choose(&o.Records, 0, images, 64, min(200, maxEntries/max(1, o.Directions)))
		return o
	}
	pipeline.Choose(&o.Rounds, 0, images, 10, 20)
	pipeline.Choose(&o.Records, 0, images, 16, 16)
	pipeline.Choose(&o.Directions, 0, images, min(5, features), min(10, features))
	return o
}

// Seen is the length of a gradient: the number of features that teachers see, without the squares of standard
// features.
func (o Options) Seen(e *encode.Encoder) int {
	if image := e.Image(); image != nil && o.Teacher.Features == "cosines" {
		return o.Teacher.Cosines * o.Teacher.Cosines * image.Channels
	}
	return e.Width()
}
