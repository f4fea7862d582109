package nn

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Clipped says what [Network.ClippedSum] did to each record. The slices are
// valid until its next call.
type Clipped struct {
	// Norms are those of the records' gradients before clipping; NaN or +Inf of
	// what is not finite.
	Norms []float64
	// Scales are what the gradients were multiplied by: at most 1, and 0 where a
	// record was left out.
	Scales []float32
	// LeftOut counts the records left out.
	LeftOut int
}

// clipper is the scratch memory of ClippedSum.
type clipper struct {
	norms   []exampleNorm
	lengths []float64
	scales  []float32
	last    []float32 // the caller's gradient, scaled
}

// minBound keeps scaled gradients away from numbers too small for float32.
const minBound = 1e-18

// ClippedSum does what Backward does for the parameters, but scales the gradient
// of each record so that its norm, over all parameters together, is at most
// bound: the sum that DP-SGD adds noise to (Abadi et al. 2016). dout holds the
// gradients of each record's own loss by the output of the last Forward (not of
// the batch's mean). The sum is added to the parameters' gradients.
//
// No record's gradient is ever stored. Norms follow from what goes into and comes
// back to each layer (Goodfellow 2015; Li et al. 2022, "ghost clipping"), and a
// second product with scaled rows gives the sum.
//
// It fails closed. A record whose norm is NaN or infinite, or so large that float32
// cannot hold it or its scale, adds nothing and is counted, and so is one in whose
// convolutions the squares of a patch, numbers of 1e18 say, overflow. Scales follow from an upper
// bound of the norm that includes every rounding error of its computation and of
// the scaled rows, so that in exact arithmetic no record adds more than bound; it
// exceeds the norm by about 1e-7 of it for dense layers and by 1e-4 to 1e-2 for
// convolutions. What remains is the rounding of the sum itself, as in any float32
// sum of records.
//
// The error says that bound is not a number between 1e-18 and the largest
// float32; nothing has been added then.
func (net *Network) ClippedSum(dout []float32, bound float64) (Clipped, error) {
	if !(bound >= minBound && bound <= math.MaxFloat32) {
		return Clipped{}, fmt.Errorf("nn: clip gradients to norm %v, want a number from %v to %v",
			bound, minBound, math.MaxFloat32)
	}
	net.Backward(dout, false, false)
	c, n := &net.clip, net.n
	c.grow(n)
	for i := range net.stages {
		s := &net.stages[i]
		if l, ok := s.layer.(weighted); ok {
			l.addNorms(c.norms, s.dy, net.input(i), n)
		}
	}
	result := c.decide(bound)
	for i := range net.stages {
		if _, ok := net.stages[i].layer.(weighted); ok {
			net.addScaled(i)
		}
	}
	return result, nil
}

func (c *clipper) grow(n int) {
	if cap(c.norms) < n {
		c.norms, c.lengths = make([]exampleNorm, n), make([]float64, n)
	}
	c.norms, c.lengths, c.scales = c.norms[:n], c.lengths[:n], tensor.Resize(c.scales, n)
	clear(c.norms)
}

// decide turns norms into scales.
func (c *clipper) decide(bound float64) Clipped {
	r := Clipped{Norms: c.lengths, Scales: c.scales}
	for i, v := range c.norms {
		upper := math.Sqrt(v.upper)
		r.Norms[i] = math.Sqrt(v.square)
		switch {
		case !(upper <= math.MaxFloat64): // NaN too
			r.Norms[i], r.Scales[i] = upper, 0
		case upper <= bound:
			r.Scales[i] = 1
		default:
			// NaN and what is below 0 become 0.
			r.Scales[i] = roundDown(max(0, bound-v.small*math.SmallestNonzeroFloat32) / upper)
		}
		if r.Scales[i] == 0 {
			r.LeftOut++
		}
	}
	return r
}

// roundDown returns a float32 that is not above x but for the last bits of x.
func roundDown(x float64) float32 {
	s := float32(x)
	if !(s > 0) {
		return 0
	}
	if float64(s) > x {
		s = math.Nextafter32(s, 0)
	}
	return s
}

// addScaled adds to the gradients of a stage those of the records, scaled. A
// record left out takes no part at all, since 0 times NaN is NaN.
func (net *Network) addScaled(i int) {
	s, x, dy := &net.stages[i], net.input(i), net.stages[i].dy
	if i == len(net.stages)-1 { // dy is the caller's
		net.clip.last = tensor.Resize(net.clip.last, len(dy))
		copy(net.clip.last, dy)
		dy = net.clip.last
	}
	scales := net.clip.scales
	for r, scale := range scales {
		if scale != 1 {
			row := dy[r*s.width : (r+1)*s.width]
			for j := range row {
				row[j] *= scale
			}
		}
	}
	for lo := 0; lo < len(scales); {
		if scales[lo] == 0 {
			lo++
			continue
		}
		hi := lo + 1
		for hi < len(scales) && scales[hi] != 0 {
			hi++
		}
		s.layer.backward(nil, dy[lo*s.width:hi*s.width], x[lo*s.from:hi*s.from], nil, hi-lo, true)
		lo = hi
	}
}
