package embed

import (
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Options are the section `embed:` of a run.yaml. This section configures `pipeline: embed`; see docs/embed.md.
// `features` and `fit` also apply to a warm start.
type Options struct {
	// Noise sets the noise multiplier by hand: noise divided by the L2 norm of what one unit adds. Too little for the
	// budget is refused. 0 takes the least that the budget allows. A warm start takes its noise from its share of
	// epsilon instead.
	Noise float64 `yaml:"noise"`
	// Quorum is the share of `teachers` that the round needs. A node without its teachers adds nothing; the
	// cost is the same.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds the round waits for the other nodes, counted from when a quorum was asked.
	Deadline float64 `yaml:"deadline"`

	Features Features `yaml:"features"`
	Fit      Fit      `yaml:"fit"`
	Student  Student  `yaml:"student"`
}

// Features say what is summed. The sum has at most 131,072 numbers over all classes. Weights are the L2 norms of what
// a record adds to a group, and only their ratios matter. More weight for one group means less noise for it and more
// for the others; the generator follows that group more.
type Features struct {
	// Count is the weight of the number 1, which counts the records of each class.
	Count float64 `yaml:"count"`
	// Columns is the weight of single columns: a number as its place between two of `bins` knots, a choice as itself.
	// Tables only. -1 takes 0.3 if the noise leaves pairs out, and 0 if columns or classes are too many for a release.
	Columns float64 `yaml:"columns"`
	// Pairs is the weight of pairs of columns, as products of these. Tables only. -1 takes 0.8, or 0 if the
	// noise multiplier is above 16, as at epsilon 0.2 and below, and if there is no pair or no room for one.
	Pairs float64 `yaml:"pairs"`
	// Bins is the number of knots of a number in single columns. More knots show more detail and add more noise. 0
	// takes 20, or fewer if there is no room.
	Bins int `yaml:"bins"`
	// PairBins is the number of knots of a number in pairs. More knots show more detail and add more noise.
	PairBins int `yaml:"pair_bins"`
	// MostPairs is how many pairs are summed if a table has more; a public seed chooses them at random. 0 takes 400,
	// or what there is room for.
	MostPairs int `yaml:"most_pairs"`
	// Fourier is the weight of random waves of whole records, which tell any two distributions apart.
	Fourier float64 `yaml:"fourier"`
	// Waves is the number of random waves for each length scale; each is two numbers. 0 takes 200 for tables, 1000 for
	// all scales of images together, or what there is room for.
	Waves int `yaml:"waves"`
	// Scales are the length scales of the waves; short ones show more detail. Numbers are 2 wide, and two values of a
	// choice are the root of 2 apart. Tables have 1.25 by default. Images of n pixels and channels have two scales: the
	// root of n over 1.4 and over 2.8.
	Scales []float64 `yaml:"scales"`
	// Patches is the weight of random waves of small squares of an image, of 5 x 5 pixels each. What is summed are
	// their means in the cells of a grid of 7 x 7: they show strokes and texture, and where. Images only. 0 leaves
	// them out; 1 suits garments, and digits lose a little.
	Patches float64 `yaml:"patches"`
	// PatchWaves is the number of these waves, each two numbers in every cell. Half of them have twice the frequency of
	// the others. 0 takes 32, or what there is room for.
	PatchWaves int `yaml:"patch_waves"`
}

// Fit says how the generator is fitted to the release. Steps of the generator take time, but cost no budget.
type Fit struct {
	// Steps is the number of steps. More steps make columns truer, but also fit the noise.
	Steps int `yaml:"steps"`
	// Batch is the number of generated records in each step; by default there are at least as many as classes.
	Batch int `yaml:"batch"`
	// StepSize is the size of the first step. It falls to `step_end` along half a cosine wave.
	StepSize float64 `yaml:"step_size"`
	// StepEnd is the size of the last step.
	StepEnd float64 `yaml:"step_end"`
	// Memory is how much the generated records of earlier steps count in a step. Rows that match as many small batches
	// are better than rows that match as a whole; but of images a batch has few of each class.
	Memory float64 `yaml:"memory"`
	// Average is the decay of the generator's moving average per step, for `pipeline: embed`.
	Average float64 `yaml:"average"`
}

// Student is the generator of `pipeline: embed`. A warm start fits the generator of its run's pipeline instead.
type Student struct {
	// Generator is the generator's network. `dense`: dense layers. `convolution`: transposed convolutions, for images
	// whose height and width 2^`layers` divides; neighbouring pixels come out alike, and it is slower.
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random maps that end the generator of images; 0 means none. At 1 images turn
	// by 0.15 radians, shear by 0.15, grow or shrink by a tenth and shift by a 28th of a side, as standard deviations.
	// It is public knowledge that such images look alike, so the generator need not learn it from answers that cost
	// budget. Use 0 for images for which that is not true.
	// A warp helps until images vary more than real ones: 1 suits digits, 0.3 suits garments, which are all upright
	// and of one size.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs of the generator.
	Noise int `yaml:"noise"`
	// Hidden is the width of the generator's layers, or the channels of a convolution's first and smallest grid.
	// For images 0 takes 64 for convolutions, else 256.
	Hidden int `yaml:"hidden"`
	// Layers is the number of the generator's hidden layers, or how often the grid doubles.
	Layers int `yaml:"layers"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options {
	return Options{
		Quorum: 0.9, Deadline: 60,
		Features: Features{Columns: -1, Pairs: -1, Fourier: -1},
		Fit:      Fit{Memory: -1, Average: -1},
		Student:  Student{Warp: -1},
	}
}

// ChosenFor returns the options with every unset value chosen for the records of an encoder, of images or of
// tables, and for a noise multiplier, 0 if it is not known. It depends on public values only.
func (o Options) ChosenFor(e *encode.Encoder, classes int, sigma float64) Options {
	images := e.Image() != nil
	f, t, s := &o.Features, &o.Fit, &o.Student
	set := *f
	// Measured on flchain, adult and credit: waves and pairs separate classes best. More weight on single
	// columns makes these more accurate and the rows less useful.
	pipeline.Choose(&f.Count, 0, images, 0.2, 0.1)
	// With much noise nothing is left of the many cells of pairs.
	columns, pairs := 0.2, 0.8
	if sigma > loud {
		columns, pairs = 0.3, 0
	}
	pipeline.Choose(&f.Columns, -1, images, columns, 0)
	pipeline.Choose(&f.Pairs, -1, images, pairs, 0)
	pipeline.Choose(&f.Fourier, -1, images, 0.8, 1)
	// Pairs have few bins, since the number of cells is their square. With many pairs each gets little of the
	// weight.
	pipeline.Choose(&f.PairBins, 0, false, 5, 0)
	if len(f.Scales) == 0 {
		// Numbers are 2 wide, and two categories the root of 2 apart.
		f.Scales = []float64{1.25}
		if images {
			f.Scales = imageScales(e.Width())
		}
	}
	o.fit(e, classes, set)
	// On tables, more steps make columns more accurate, and also fit the noise.
	pipeline.Choose(&t.Steps, 0, images, 600, 2500)
	pipeline.Choose(&t.Batch, 0, images, max(500, classes), max(200, classes))
	pipeline.Choose(&t.StepSize, 0, images, 3e-3, 2e-3)
	pipeline.Choose(&t.StepEnd, 0, images, t.StepSize/60, t.StepSize/20)
	// For tables, rows that match as many small batches are better than rows that match as a whole. A batch of
	// images has few of each class.
	pipeline.Choose(&t.Memory, -1, images, 0, 0.97)
	pipeline.Choose(&t.Average, -1, images, 0.98, 0.99)
	// Features show well what images look like, and less well how they vary. A warp adds variation; it helps as
	// long as it does not exceed the variation of real images.
	pipeline.Choose(&s.Warp, -1, images, 0, 1)
	pipeline.Choose(&s.Noise, 0, false, 16, 0)
	pipeline.Choose(&s.Layers, 0, false, 2, 0)
	pipeline.ChooseGenerator(&s.Generator, &s.Hidden, o.generator(1), e)
	return o
}

// loud is the noise multiplier from which pairs are left out, about that of epsilon 0.2.
const loud = 16

// imageScales are two length scales on pixels from -1 to 1: 20 and 10 for images of 28 x 28, where two digits
// are about 20 apart. They grow as sqrt(n), like the length of an image of n numbers. Short waves show strokes,
// but at the start no generated image is near a real one, and their gradient may vanish; long waves lead it
// there.
func imageScales(features int) []float64 {
	side := math.Sqrt(float64(features))
	return []float64{side / 1.4, side / 2.8}
}

func (o Options) generator(classes int) pipeline.GeneratorSpec {
	s := o.Student
	return pipeline.GeneratorSpec{Kind: s.Generator, Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers,
		Classes: classes, Warp: s.Warp}
}
