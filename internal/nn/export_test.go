package nn

import (
	"math"
	"math/rand/v2"
)

// Contribution returns, in float64, the norm of what a record adds to all
// parameters by the definitions of the layers, from the rows that ClippedSum
// scaled.
func Contribution(net *Network, i int) float64 {
	var sum float64
	for k := range net.stages {
		s := &net.stages[k]
		dy := s.dy
		if k == len(net.stages)-1 {
			dy = net.clip.last
		}
		d, x := wide(dy[i*s.width:(i+1)*s.width]), wide(net.input(k)[i*s.from:(i+1)*s.from])
		switch l := s.layer.(type) {
		case *dense:
			for _, v := range d {
				for _, u := range x {
					sum += v * v * u * u
				}
				sum += v * v
			}
		case *embedding:
			for _, v := range d[l.own:] {
				sum += v * v
			}
		case *convolution:
			sum += l.exactSquare(d, x)
		}
	}
	return math.Sqrt(sum)
}

func (c *convolution) exactSquare(dy, x []float64) (sum float64) {
	images, sides := x, dy
	if c.transposed {
		images, sides = dy, x
	}
	gw, gb := make([]float64, len(c.w)), make([]float64, len(c.b))
	for i, v := range dy {
		gb[i%len(gb)] += v
	}
	for p := range c.positions() {
		for k := range c.kernel {
			for l := range c.kernel {
				r, q := p/c.cols*c.stride-c.pad+k, p%c.cols*c.stride-c.pad+l
				if r < 0 || q < 0 || r >= c.of.Height || q >= c.of.Width {
					continue
				}
				for ch := range c.of.Channels {
					for o := range c.side {
						gw[((o*c.kernel+k)*c.kernel+l)*c.of.Channels+ch] += sides[p*c.side+
							o] * images[(r*c.of.Width+q)*c.of.Channels+ch]
					}
				}
			}
		}
	}
	for _, g := range [][]float64{gw, gb} {
		for _, v := range g {
			sum += v * v
		}
	}
	return sum
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func DrawInit(f Init, rng *rand.Rand, w []float32, fanIn, fanOut int) { f.draw(rng, w, fanIn, fanOut) }

const LeastClip = minBound

const MostSteps = maxStepsBound

var StepScale = stepScale
