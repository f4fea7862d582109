package dpgan

// Loss names what the discriminator and the generator minimize.
type Loss string

// The losses.
const (
	// Logistic is the loss of Goodfellow et al. 2014; the generator has the variant that does not saturate.
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
	// Tilt moves the generator to its own distribution tilted by the discriminator, and restarts the
	// discriminator. The logistic loss makes the discriminator's score a log-ratio of densities. For tables
	// only.
	Tilt Follow = "tilt"
)

// Options are the section `dpgan:` of a run.yaml. This section configures `pipeline: dpgan`; see docs/dpgan.md.
type Options struct {
	// Steps is the number of steps of the discriminator. Each is a round trip and a release. More steps have more
	// noise in each.
	Steps int `yaml:"steps"`
	// Rate is the probability of each privacy unit to be in the sample of a step. Large samples take longer, and for
	// what they cost they leave less noise beside the signal; 1 leaves least.
	Rate float64 `yaml:"rate"`
	// Batch is the expected size of a sample, in place of `rate`; it needs `units` and may not exceed it.
	Batch int `yaml:"batch"`
	// Units is the number of privacy units at all sites together, for `batch`. It is **public**: do not count it in
	// the data. If the sites have another number, samples are larger or smaller than `batch`; what is charged is the
	// rate batch/units.
	Units int `yaml:"units"`
	// Clip is the largest L2 norm of a unit's gradient; longer gradients are scaled down. A larger norm has less bias
	// and more noise. For a linear discriminator of tables with `pieces` or `plain` features 0 takes the norm that no
	// gradient exceeds, so that nothing is clipped; for others 0 takes 1.
	Clip float64 `yaml:"clip"`
	// Noise sets the noise multiplier by hand: noise divided by `clip`. With too little noise the plan does not fit
	// the budget, and the run is refused. 0 takes the least noise with which all steps fit.
	Noise float64 `yaml:"noise"`
	// ClassEpsilon is what the class shares cost, in epsilon. The noise is about 1/`class_epsilon` units a class. It
	// is not paid with a warm start, the default for tables, which already tells the counts.
	ClassEpsilon float64 `yaml:"class_epsilon"`
	// Quorum is the share of `teachers` that a round needs. A node without its teachers adds nothing; the
	// cost is the same.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the other nodes, counted from when a quorum was asked.
	Deadline float64 `yaml:"deadline"`

	Discriminator Discriminator `yaml:"discriminator"`
	Student       Student       `yaml:"student"`
}

// Discriminator says what scores records and how it learns. The discriminator has at most 131,072 weights, since
// a release holds a number for each.
type Discriminator struct {
	// Kind is the network. `dense`: dense layers. `convolution`: convolutions that halve an image, then a dense layer;
	// images only.
	Kind string `yaml:"kind"`
	// Hidden is the width of the hidden layers, or the channels of the first convolution; the next ones double them.
	// For convolutions 0 takes 16.
	Hidden int `yaml:"hidden"`
	// Layers is the number of hidden layers, or of convolutions. With 0 layers scores are linear. For convolutions -1
	// takes 2.
	Layers int `yaml:"layers"`
	// Classes is how the class counts. `each`: the last layer has weights of its own for every class. `told`: the
	// class is an input, or a plane of an image.
	Classes string `yaml:"classes"`
	// Features is what the discriminator sees of a record. `pieces`: each number as its place in 14 fixed pieces of its
	// range, so that narrow columns are visible without units taken from data; tables only. `standard`: columns in
	// units of generated records, with the squares of numbers; tables only. `cosines`: the coefficients of an image at
	// its lowest frequencies; not with convolutions. `plain`: as encoded.
	Features string `yaml:"features"`
	// Fourier is the number of random cosine features that are added to these. With them a linear score can tell any
	// two distributions apart. They are public. Not with convolutions.
	Fourier int `yaml:"fourier"`
	// Cosines is the number k of k x k frequencies in each channel, for `cosines`. 0 takes 14, or the side of smaller
	// images.
	Cosines int `yaml:"cosines"`
	// Loss is what the discriminator minimizes. `wasserstein`: the difference of mean scores (Xie et al. 2018); it
	// needs `decay`, or scores grow without bound. `logistic`: the usual loss of GANs (Bie et al. 2023). `kl-wgan`:
	// generated records count by their density ratio.
	Loss Loss `yaml:"loss"`
	// Optimizer is how the weights are updated. By default it is `sgd` for linear discriminators with `wasserstein`,
	// else `adam`.
	Optimizer string `yaml:"optimizer"`
	// StepSize is the optimizer's first step size. It falls as 1/t to `step_end`, so that the noise of all steps
	// averages out. 0 takes 0.3 for `sgd` and 0.001 for `adam`.
	StepSize float64 `yaml:"step_size"`
	// StepEnd is the optimizer's last step size. 0 takes `step_size`, for images 0.3 times that.
	StepEnd float64 `yaml:"step_end"`
	// Momentum is the momentum of `sgd`, or Adam's first. -1 takes 0 for `sgd` and 0.5 for `adam`.
	Momentum float64 `yaml:"momentum"`
	// Decay is the weight decay. -1 takes 1 for linear discriminators with `wasserstein`, else 0.
	Decay float64 `yaml:"decay"`
	// Memory is how much earlier releases count in a step; 1 averages all of them. The releases of a linear
	// discriminator with `wasserstein` do not depend on its weights: all say the same, and their average has the
	// least noise, so -1 takes 1. For other discriminators -1 takes 0.8. There the average lags behind, which still
	// pays if the noise is large.
	Memory float64 `yaml:"memory"`
	// Reuse is the number of steps on each release, each with other generated records; they cost no budget. 0 takes 10
	// for linear discriminators with `wasserstein`, else 1.
	Reuse int `yaml:"reuse"`
	// Generated is the number of generated records in a step; they cost no budget.
	Generated int `yaml:"generated"`
}

// Student says how the generator learns. Steps of the student take time, but cost no budget.
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
	// Follow is how the generator follows the discriminator. `climb`: it takes steps against its loss, as GANs do.
	// `tilt`: its own distribution is tilted by the discriminator, which then starts again; for tables and
	// `loss: logistic` only.
	Follow Follow `yaml:"follow"`
	// Every is the number of the discriminator's steps between those of the generator, n_D in the papers. More give
	// the discriminator time to learn through the noise.
	Every int `yaml:"every"`
	// Adapt lets `every` grow (Bie et al. 2023). `every` doubles, up to 128 times, when the moving average of the share
	// of generated records that the discriminator detects falls below `adapt`. It then stays for 200 steps of the
	// generator. 0 keeps `every` as it is.
	Adapt float64 `yaml:"adapt"`
	// Steps is the number of the generator's steps at a time. With `tilt` 0 takes 30.
	Steps int `yaml:"steps"`
	// Batch is the number of generated records in each of these steps.
	Batch int `yaml:"batch"`
	// StepSize is the size of the generator's first step. It falls evenly to `step_end`.
	StepSize float64 `yaml:"step_size"`
	// StepEnd is the size of the generator's last step.
	StepEnd float64 `yaml:"step_end"`
	// Average is the decay of the generator's moving average per step. With `tilt` -1 takes 0.998.
	Average float64 `yaml:"average"`
	// Keep is the number of generators and discriminators that stay in `state` for stages after training. They come
	// from the run's second half, evenly spaced.
	Keep int `yaml:"keep"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options {
	return Options{
		ClassEpsilon: 0.01, Quorum: 0.9, Deadline: 60,
		Discriminator: Discriminator{Layers: -1, Fourier: -1, Momentum: -1, Decay: -1, Memory: -1},
		Student:       Student{Warp: -1, Noise: 16, Layers: 2, Average: -1, Keep: 10},
	}
}
