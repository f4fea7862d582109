package embed

import (
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Options are the `embed:` part of a run, those of its features and of fitting also of a
// warm start. The zero value of a field is not its default; start from [DefaultOptions].
type Options struct {
	// Noise is the noise multiplier: the noise of each number of the sum over the L2 norm
	// of what one unit adds. Default: 0, the least that the budget allows. Of a warm start
	// its share of the budget says how much.
	Noise float64 `yaml:"noise"`
	// Quorum is the share of the teachers without which a round does not count.
	// Default: 0.9.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the rest once a quorum is
	// connected. Default: 60.
	Deadline float64 `yaml:"deadline"`

	Features Features `yaml:"features"`
	Fit      Fit      `yaml:"fit"`
	Student  Student  `yaml:"student"`
}

// Features say what is summed. Weights are L2 norms of what a record adds to a group; only
// their ratios matter: more weight is less noise for this group and more for the others.
type Features struct {
	// Count is the weight of the number 1, which counts the records of each class.
	// Default: 0, chosen.
	Count float64 `yaml:"count"`
	// Columns is the weight of single columns. Default: -1, chosen; 0 leaves them out.
	Columns float64 `yaml:"columns"`
	// Pairs is the weight of pairs of columns. Default: -1, chosen; 0 leaves them out.
	Pairs float64 `yaml:"pairs"`
	// Bins is how many knots a number has of columns, PairBins of pairs. Defaults: 0, chosen.
	Bins     int `yaml:"bins"`
	PairBins int `yaml:"pair_bins"`
	// MostPairs is how many pairs are summed of tables that have more, chosen by a public
	// seed. Default: 0, chosen.
	MostPairs int `yaml:"most_pairs"`
	// Fourier is the weight of random waves of whole records, which tell any two
	// distributions apart. Default: -1, chosen; 0 leaves them out.
	Fourier float64 `yaml:"fourier"`
	// Waves is their number. Default: 0, chosen.
	Waves int `yaml:"waves"`
	// Scales are their length scales, of which each has as many waves: short ones see more
	// detail, long ones more of the whole. Default: none, chosen.
	Scales []float64 `yaml:"scales"`
}

// Fit says how the generator is fitted to the release. All of it is free of cost.
type Fit struct {
	// Steps is the number of steps, of Batch generated records each. Defaults: 0, chosen.
	Steps int `yaml:"steps"`
	Batch int `yaml:"batch"`
	// StepSize is Adam's, StepEnd that of the last step. Defaults: 0, chosen.
	StepSize float64 `yaml:"step_size"`
	StepEnd  float64 `yaml:"step_end"`
	// Memory is how much of the generated records before counts in a step: without any a
	// step would take the spread of a small batch for that of the generator. Default: -1,
	// chosen.
	Memory float64 `yaml:"memory"`
	// Average is the decay of the generator's moving average per step, of `pipeline:
	// embed`. Default: -1, chosen.
	Average float64 `yaml:"average"`
}

// Student is the generator of `pipeline: embed`; a warm start is that of another pipeline's.
type Student struct {
	// Generator: dense or convolution (of images). Default: chosen.
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random turns, shears, scales and shifts that end
	// a generator of images, which it then need not learn. Default: -1, chosen.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs. Default: 0, chosen.
	Noise int `yaml:"noise"`
	// Hidden and Layers shape the generator. Defaults: 0, chosen; 0, chosen.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options {
	return Options{
		Quorum: 0.9, Deadline: 60,
		Features: Features{Columns: -1, Pairs: -1, Fourier: -1},
		Fit:      Fit{Memory: -1, Average: -1},
		Student:  Student{Warp: -1},
	}
}

// ChosenFor returns the options with everything that is left to be chosen filled in for
// the records of an encoder, of images or of tables, and a noise multiplier, 0 where it is not
// known. It depends on nothing that is not public.
func (o Options) ChosenFor(e *encode.Encoder, classes int, sigma float64) Options {
	images := e.Image() != nil
	f, t, s := &o.Features, &o.Fit, &o.Student
	set := *f
	// Measured on flchain, adult and credit: waves and pairs tell classes apart best; more
	// weight on single columns makes these truer and the rows worth less.
	pipeline.Choose(&f.Count, 0, images, 0.2, 0.1)
	// Much noise leaves nothing of the many cells of pairs.
	columns, pairs := 0.2, 0.8
	if sigma > loud {
		columns, pairs = 0.3, 0
	}
	pipeline.Choose(&f.Columns, -1, images, columns, 0)
	pipeline.Choose(&f.Pairs, -1, images, pairs, 0)
	pipeline.Choose(&f.Fourier, -1, images, 0.8, 1)
	// Pairs have few bins, since each has as many cells as their square. Many pairs leave
	// little of the weight to each.
	pipeline.Choose(&f.PairBins, 0, false, 5, 0)
	if len(f.Scales) == 0 {
		// Numbers are 2 wide, and two categories the root of 2 apart.
		f.Scales = []float64{1.25}
		if images {
			f.Scales = imageScales(e.Width())
		}
	}
	o.fit(e, classes, set)
	// More steps on tables make columns truer, and learn the noise as well.
	pipeline.Choose(&t.Steps, 0, images, 600, 2500)
	pipeline.Choose(&t.Batch, 0, images, max(500, classes), max(200, classes))
	pipeline.Choose(&t.StepSize, 0, images, 3e-3, 2e-3)
	pipeline.Choose(&t.StepEnd, 0, images, t.StepSize/60, t.StepSize/20)
	// Rows that match as many small batches are better than rows that match as a whole, of
	// tables; of images a batch has few of a class.
	pipeline.Choose(&t.Memory, -1, images, 0, 0.97)
	pipeline.Choose(&t.Average, -1, images, 0.98, 0.99)
	// What images look like is seen better than how they vary from one to the next. A warp
	// helps with that until it is more than real ones vary.
	pipeline.Choose(&s.Warp, -1, images, 0, 1)
	pipeline.Choose(&s.Noise, 0, false, 16, 0)
	pipeline.Choose(&s.Layers, 0, false, 2, 0)
	pipeline.ChooseGenerator(&s.Generator, &s.Hidden, o.generator(1), e)
	return o
}

// loud is a noise multiplier from which pairs are not asked for: that of epsilon 0.2.
const loud = 16

// imageScales are two length scales on pixels from -1 to 1: 20 and 10 for 28 x 28 of them, where
// two digits are some 20 apart. An image of n numbers is a vector whose length grows as sqrt(n),
// and so do they. Short waves see strokes, but with them alone no image that a generator begins
// with is like a real one, and there may be nothing to climb; long ones lead it there.
func imageScales(features int) []float64 {
	side := math.Sqrt(float64(features))
	return []float64{side / 1.4, side / 2.8}
}

func (o Options) generator(classes int) pipeline.GeneratorSpec {
	s := o.Student
	return pipeline.GeneratorSpec{Kind: s.Generator, Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers,
		Classes: classes, Warp: s.Warp}
}
