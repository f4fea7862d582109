package dpgan

// Loss names what the discriminator and the generator minimize.
type Loss string

// The losses.
const (
	// Logistic is that of Goodfellow et al. 2014, of generators the one that does not
	// saturate.
	Logistic Loss = "logistic"
	// Wasserstein is the difference of mean scores, as in Xie et al. 2018.
	Wasserstein Loss = "wasserstein"
	// KLWGAN weighs generated records by their density ratio (Song and Ermon 2020).
	KLWGAN Loss = "kl-wgan"
)

// Follow names how the generator follows the discriminator.
type Follow string

// The ways to follow.
const (
	// Climb takes gradient steps of the generator's loss, as GANs do.
	Climb Follow = "climb"
	// Tilt moves the generator to its own distribution tilted by the discriminator, which
	// the logistic loss makes a log-ratio of densities, and lets the discriminator begin
	// anew; of tables only.
	Tilt Follow = "tilt"
)

// Options are the `dpgan:` part of a run. The zero value of a field is not its
// default; start from [DefaultOptions].
type Options struct {
	// Steps is the number of steps of the discriminator, each a round trip. More steps
	// mean more noise in each. Default: 0, chosen.
	Steps int `yaml:"steps"`
	// Rate is the probability of each privacy unit to be in the sample of a step; 1
	// takes all of them, which leaves the least noise for what a step costs and takes the
	// longest. Default: 0, chosen: 1 for tables, 0.05 for images.
	Rate float64 `yaml:"rate"`
	// Batch sets the rate as a number of units in place of a share: batch/units. Units
	// is the public number of privacy units of all sites, which batch needs. Defaults: 0.
	Batch int `yaml:"batch"`
	Units int `yaml:"units"`
	// Clip is the largest L2 norm of a unit's gradient: more is less bias and more
	// noise. Default: 0, chosen: of linear discriminators the norm that no gradient passes,
	// 1 of others.
	Clip float64 `yaml:"clip"`
	// Noise is the noise multiplier: the noise of each number of a sum over the clip
	// norm. Default: 0, the least that the budget allows for all steps.
	Noise float64 `yaml:"noise"`
	// ClassEpsilon is paid for the class shares, a part of the run's epsilon. Default:
	// 0.01.
	ClassEpsilon float64 `yaml:"class_epsilon"`
	// Quorum is the share of the teachers without which a round does not count.
	// Default: 0.9.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the rest once a quorum is
	// connected. Default: 60.
	Deadline float64 `yaml:"deadline"`

	Discriminator Discriminator `yaml:"discriminator"`
	Student       Student       `yaml:"student"`
}

// Discriminator says what scores records and how it learns.
type Discriminator struct {
	// Kind: dense or convolution (of images). Default: chosen.
	Kind string `yaml:"kind"`
	// Hidden and Layers are the width and number of hidden layers, or the channels of the
	// first convolution and the number of convolutions. Layers 0 scores linearly. Defaults:
	// 0 and -1, chosen.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
	// Classes: told (the class is an input) or each (the last layer has weights of its own
	// for every class). Default: chosen.
	Classes string `yaml:"classes"`
	// Features: pieces (each number as its place in fixed pieces of its range), standard
	// (columns in units of generated records, with the squares of numbers), plain (as
	// encoded) or cosines (an image's coefficients at its lowest frequencies). Default:
	// chosen, pieces for tables.
	Features string `yaml:"features"`
	// Fourier is the number of random cosine features of these, which are seen besides: a
	// linear score of them tells any two distributions apart. Default: -1, chosen.
	Fourier int `yaml:"fourier"`
	// Cosines is how many frequencies in each direction are seen of an image. Default: 0,
	// chosen: 14, or the side of smaller images.
	Cosines int `yaml:"cosines"`
	// Loss: logistic, wasserstein or kl-wgan. Default: chosen.
	Loss Loss `yaml:"loss"`
	// Optimizer: adam or sgd. Default: chosen.
	Optimizer string `yaml:"optimizer"`
	// StepSize is the optimizer's, StepEnd that of the last step; between them it falls as
	// 1/t does, so that the noise of all steps averages out. Momentum is that of sgd (or
	// Adam's first), Decay pulls weights to zero. Defaults: 0, 0, -1 and -1, chosen.
	StepSize float64 `yaml:"step_size"`
	StepEnd  float64 `yaml:"step_end"`
	Momentum float64 `yaml:"momentum"`
	Decay    float64 `yaml:"decay"`
	// Memory is how much of the releases before counts in a step: of 1 the average of all.
	// What is released of a linear discriminator with the wasserstein loss does not depend
	// on its weights, so that all releases say the same. Default: -1, chosen.
	Memory float64 `yaml:"memory"`
	// Reuse is how many steps are taken on a release, each with other generated records:
	// more are free of cost and follow the generator closer. Default: 0, chosen.
	Reuse int `yaml:"reuse"`
	// Generated is the number of generated records in a step; they are free. Default: 0,
	// chosen.
	Generated int `yaml:"generated"`
}

// Student says how the generator learns. Its steps are free of cost.
type Student struct {
	// Generator: dense or convolution (of images). Default: chosen, convolution for images
	// that it can make and dense for others.
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random turns, shears, scales and shifts that end
	// a generator of images, which it then need not learn. Default: -1, chosen.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs of the generator. Default: 16.
	Noise int `yaml:"noise"`
	// Hidden and Layers shape the generator. Defaults: 0, chosen; 2.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
	// Follow: climb (the papers') or tilt. Default: chosen.
	Follow Follow `yaml:"follow"`
	// Every is n_D, the number of steps of the discriminator between those of the
	// generator. Default: 0, chosen.
	Every int `yaml:"every"`
	// Adapt lets n_D grow: it doubles, up to 128 times Every, when the moving average
	// (0.99) of the share of generated records that the discriminator finds out falls
	// below this, and rests for 200 steps of the generator then. Default: 0, n_D stays.
	Adapt float64 `yaml:"adapt"`
	// Steps is the number of steps of the generator at a time, of Batch records each.
	// StepSize is Adam's, StepEnd that of the last step; it falls evenly. Defaults: 0,
	// chosen.
	Steps    int     `yaml:"steps"`
	Batch    int     `yaml:"batch"`
	StepSize float64 `yaml:"step_size"`
	StepEnd  float64 `yaml:"step_end"`
	// Average is the decay of the generator's moving average per step. Default: -1,
	// chosen.
	Average float64 `yaml:"average"`
	// Keep is how many generators and discriminators of the run's second half are kept,
	// in equal distances, for what comes after the run. Default: 10.
	Keep int `yaml:"keep"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options {
	return Options{
		ClassEpsilon: 0.01, Quorum: 0.9, Deadline: 60,
		Discriminator: Discriminator{Layers: -1, Fourier: -1, Momentum: -1, Decay: -1, Memory: -1},
		Student:       Student{Warp: -1, Noise: 16, Layers: 2, Average: -1, Keep: 10},
	}
}
