package embed

import (
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

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
