package nn

import (
	"math"
	"math/rand/v2"
)

// Init draws the first weights of a layer that sums fanIn inputs for each output and uses each input for fanOut
// outputs. Biases start at zero.
type Init func(rng *rand.Rand, w []float32, fanIn, fanOut int)

// GlorotUniform is uniform with variance 2/(fanIn+fanOut) (Glorot and Bengio
// 2010).
func GlorotUniform(rng *rand.Rand, w []float32, fanIn, fanOut int) {
	bound := math.Sqrt(6 / float64(fanIn+fanOut))
	for i := range w {
		w[i] = float32((2*rng.Float64() - 1) * bound)
	}
}

// DCGAN is normal with standard deviation 0.02 (Radford, Metz and Chintala 2016).
func DCGAN(rng *rand.Rand, w []float32, _, _ int) {
	for i := range w {
		w[i] = float32(0.02 * rng.NormFloat64())
	}
}

// Zeros draws nothing: a last layer of zeros gives all records the same score until it has learned something.
func Zeros(_ *rand.Rand, w []float32, _, _ int) { clear(w) }

// Times draws weights that are larger by a factor.
func (f Init) Times(factor float32) Init {
	return func(rng *rand.Rand, w []float32, fanIn, fanOut int) {
		f.draw(rng, w, fanIn, fanOut)
		for i := range w {
			w[i] *= factor
		}
	}
}

func (f Init) draw(rng *rand.Rand, w []float32, fanIn, fanOut int) {
	if f == nil {
		f = GlorotUniform
	}
	f(rng, w, fanIn, fanOut)
}
