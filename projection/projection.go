package projection

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
)

// Spec defines how gradients become votes.
type Spec struct {
	// Features is the length of a gradient, Directions that of its projection, at most Features. The paper's k is
	// Directions: 5 for tables, 10 for images.
	Features, Directions int
	// Clip is the paper's c: values are clipped to [-Clip, Clip].
	Clip float64
	// Bins are the equal parts of (-Clip, Clip), at least 2; the paper's B is 10.
	Bins int
}

// maxBins keeps a bin within a byte.
const maxBins = 256

// maxMatrix bounds the numbers of a projection matrix.
const maxMatrix = 1 << 26

// Check reports what is wrong with a spec, and how to fix it.
func (s Spec) Check() error {
	switch {
	case s.Features < 1:
		return fmt.Errorf("projection of %d features; there must be at least 1", s.Features)
	case s.Directions < 1 || s.Directions > s.Features:
		return fmt.Errorf("projection of %d features to %d directions; use 1 to %d", s.Features, s.Directions,
			s.Features)
	case s.Features > maxMatrix/s.Directions:
		return fmt.Errorf("projection of %d features to %d directions is more than %d numbers; use fewer directions",
			s.Features, s.Directions, maxMatrix)
	case !(s.Clip > 0 && s.Clip <= math.MaxFloat32) || float32(s.Clip)/maxBins == 0:
		return fmt.Errorf("clip of projected gradients at %v; use a number above 0 that float32 can divide into bins",
			s.Clip)
	case s.Bins < 2 || s.Bins > maxBins:
		return fmt.Errorf("%d bins; use 2 to %d", s.Bins, maxBins)
	}
	return nil
}

// Projection is a public random matrix with the data for votes on its projections. It is safe for concurrent use.
type Projection struct {
	spec   Spec
	matrix kernel.Matrix // [Features, Directions]
}

// New draws the matrix of a seed: independent normal numbers of variance 1 over
// Directions. Inner products are then preserved in expectation, by Project alone as
// well as by Project and Back, with a relative error of order 1/sqrt(Directions)
// (Johnson and Lindenstrauss 1984; Dasgupta and Gupta 2003).
func New(spec Spec, seed uint64) (*Projection, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	data := make([]float32, spec.Features*spec.Directions)
	spread := 1 / math.Sqrt(float64(spec.Directions))
	bits := rand.NewPCG(seed, 0x9a7e)
	for i := 0; i < len(data); i += 2 {
		a, b := normals(bits)
		data[i] = float32(spread * a)
		if i+1 < len(data) {
			data[i+1] = float32(spread * b)
		}
	}
	return &Projection{spec: spec, matrix: kernel.Of(data, spec.Features, spec.Directions)}, nil
}

// normals draws two normal numbers from the bits of a generator whose sequence is
// fixed (Box and Muller 1958). The standard library may change how it draws them, and
// roles of different versions must agree.
func normals(bits *rand.PCG) (a, b float64) {
	u := (float64(bits.Uint64()>>11) + 0.5) / (1 << 53)
	v := float64(bits.Uint64()>>11) / (1 << 53)
	r := math.Sqrt(-2 * math.Log(u))
	sin, cos := math.Sincos(2 * math.Pi * v)
	return r * cos, r * sin
}

// Spec returns the specification from which the projection was made.
func (p *Projection) Spec() Spec { return p.spec }

// Project writes the projections of n gradients, shape [n, Features], to dst, shape
// [n, Directions].
func (p *Projection) Project(dst, gradients []float32, n int) {
	gemm.Multiply(kernel.Of(dst, n, p.spec.Directions), kernel.Of(gradients, n, p.spec.Features), p.matrix,
		gemm.Epilogue{})
}

// Back writes estimates of n gradients, shape [n, Features], to dst, given their values along the directions,
// shape [n, Directions].
func (p *Projection) Back(dst, values []float32, n int) {
	gemm.Multiply(kernel.Of(dst, n, p.spec.Features), kernel.Of(values, n, p.spec.Directions), p.matrix.T(),
		gemm.Epilogue{})
}
