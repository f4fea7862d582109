package embedding

import (
	"errors"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

// waves is the part of random waves: the cosines of all, followed by the sines of all. Numbers and binary
// categories are spread over [-1, 1] for it; an empty value is 0.
type waves struct {
	columns  []column
	width, m int
	scale    float32
	matrix   kernel.Matrix // [width, m]
	// cos and sin are the cosines and sines of the matrix rows for categories and binary columns (their step of
	// 2).
	cos, sin kernel.Matrix
}

// maxArgument keeps angles well within the range of package vector's sines: beyond it float32 is too imprecise for
// an angle.
const maxArgument = 1e6

func newWaves(p Part, e *encode.Encoder, room int) (block, error) {
	if 2*p.Count > room {
		return nil, errRoom(2*p.Count, room)
	}
	f := &waves{columns: columnsOf(e, max(2, p.Bins)), width: e.Width(), m: p.Count,
		scale: float32(p.Weight / math.Sqrt(float64(p.Count)))}
	data, err := projection.Frequencies(f.width, f.m, p.Spread, p.Seed)
	if err != nil {
		return nil, err
	}
	f.matrix = kernel.Of(data, f.width, f.m)
	if err := checkAngles(data, f.m); err != nil {
		return nil, err
	}
	f.cos = kernel.Of(make([]float32, len(data)), f.width, f.m)
	f.sin = kernel.Of(make([]float32, len(data)), f.width, f.m)
	for _, c := range f.columns {
		step := float32(1)
		switch c.kind {
		case encode.HeadNumber:
			continue
		case encode.HeadBinary:
			step = 2
		}
		for i := c.at * f.m; i < (c.at+c.width)*f.m; i++ {
			f.sin.Data[i], f.cos.Data[i] = projection.Sincos(step * data[i])
		}
	}
	return f, nil
}

// checkAngles refuses waves, shape [inputs, m], whose angles may be too large.
func checkAngles(matrix []float32, m int) error {
	for j := range m {
		var most float64
		for i := j; i < len(matrix); i += m {
			most += math.Abs(float64(matrix[i]))
		}
		if !(most < maxArgument) {
			return errors.New("the waves are too short to compute their angles; use a smaller spread")
		}
	}
	return nil
}

func (f *waves) count() int { return 2 * f.m }

func (f *waves) groups() []int { return []int{2 * f.m} }

func (f *waves) pass() pass { return &wavesPass{waves: f} }

// wavesPass holds cosines and sines of n records, each of shape [n, m].
type wavesPass struct {
	*waves
	x               []float32
	n               int
	z, cosine, sine []float32
	// p is a wave's part of the sum of weights times vectors, q its derivative with respect to the angle; turned
	// are both without a category.
	p, q, turnedP, turnedQ, by []float32
}

func (f *wavesPass) take(x []float32, n int) {
	f.x, f.n = x, n
	f.z = tensor.Resize(f.z, n*f.width)
	clear(f.z)
	for i := range n {
		row, to := x[i*f.width:(i+1)*f.width], f.z[i*f.width:(i+1)*f.width]
		for j := range f.columns {
			c := &f.columns[j]
			switch {
			case c.empty(row):
				to[c.flag] = 1
			case c.kind == encode.HeadCategory:
				to[c.at+c.chosen(row)] = 1
			case c.kind == encode.HeadNumber:
				to[c.at], _ = c.spread(row[c.at])
			default:
				to[c.at] = 2*unit(row[c.at]) - 1
			}
		}
	}
	f.cosine, f.sine = tensor.Resize(f.cosine, n*f.m), tensor.Resize(f.sine, n*f.m)
	gemm.Multiply(kernel.Of(f.cosine, n, f.m), kernel.Of(f.z, n, f.width), f.matrix, gemm.Epilogue{})
	vector.Sine(f.sine, f.cosine)
	vector.Cosine(f.cosine, f.cosine)
}

func (f *wavesPass) each(i int, first int32, at []int32, values []float32) ([]int32, []float32) {
	for j := range int32(2 * f.m) {
		at = append(at, first+j)
	}
	from := len(values)
	values = append(append(values, f.cosine[i*f.m:(i+1)*f.m]...), f.sine[i*f.m:(i+1)*f.m]...)
	vector.Scale(values[from:], f.scale)
	return at, values
}

func (f *wavesPass) sum(i int, dst []float64) {
	cosines, sines := dst[:f.m], dst[f.m:]
	for j, v := range f.cosine[i*f.m : (i+1)*f.m] {
		cosines[j] += float64(f.scale * v)
	}
	for j, v := range f.sine[i*f.m : (i+1)*f.m] {
		sines[j] += float64(f.scale * v)
	}
}

// slope of numbers is the derivative. That of categories is exact too: a wave whose angle moves by d goes from P
// to P cos d + Q sin d, where Q is its derivative.
func (f *wavesPass) slope(dx []float32, weights func(i int) []float32) {
	n := f.n
	f.p, f.q, f.by = tensor.Resize(f.p, n*f.m), tensor.Resize(f.q, n*f.m), tensor.Resize(f.by, n*f.width)
	f.turnedP, f.turnedQ = tensor.Resize(f.turnedP, n*f.m), tensor.Resize(f.turnedQ, n*f.m)
	for i := range n {
		w := weights(i)
		wc, ws := w[:f.m], w[f.m:]
		p, q, sine := f.p[i*f.m:(i+1)*f.m], f.q[i*f.m:(i+1)*f.m], f.sine[i*f.m:(i+1)*f.m]
		for j, c := range f.cosine[i*f.m : (i+1)*f.m] {
			s := sine[j]
			p[j] = f.scale * (wc[j]*c + ws[j]*s)
			q[j] = f.scale * (ws[j]*c - wc[j]*s)
		}
	}
	gemm.Multiply(kernel.Of(f.by, n, f.width), kernel.Of(f.q, n, f.m), f.matrix.T(), gemm.Epilogue{})
	for j := range f.columns {
		c := &f.columns[j]
		switch c.kind {
		case encode.HeadCategory:
			f.slopeOfCategory(c, dx)
		case encode.HeadBinary:
			f.slopeOfBinary(c, dx)
		default:
			for i := range n {
				if !c.empty(f.x[i*f.width : (i+1)*f.width]) {
					_, steep := c.spread(f.x[i*f.width+c.at])
					dx[i*f.width+c.at] += steep * f.by[i*f.width+c.at]
				}
			}
		}
		if c.flag >= 0 {
			f.slopeOfFlag(c, dx)
		}
	}
}

// slopeOfCategory subtracts the phase of the chosen category from each wave, then adds that of each category in
// turn.
func (f *wavesPass) slopeOfCategory(c *column, dx []float32) {
	n := f.n
	for i := range n {
		k := c.at + c.chosen(f.x[i*f.width:(i+1)*f.width])
		cos, sin := f.cos.Data[k*f.m:(k+1)*f.m], f.sin.Data[k*f.m:(k+1)*f.m]
		p, q := f.p[i*f.m:(i+1)*f.m], f.q[i*f.m:(i+1)*f.m]
		toP, toQ := f.turnedP[i*f.m:(i+1)*f.m], f.turnedQ[i*f.m:(i+1)*f.m]
		for j, v := range p {
			toP[j] = v*cos[j] - q[j]*sin[j]
			toQ[j] = v*sin[j] + q[j]*cos[j]
		}
	}
	to := kernel.Matrix{Data: dx[c.at:], Rows: n, Cols: c.width, Stride: f.width}
	rows := func(m kernel.Matrix) kernel.Matrix {
		return kernel.Of(m.Data[c.at*f.m:(c.at+c.width)*f.m], c.width, f.m).T()
	}
	gemm.Multiply(to, kernel.Of(f.turnedP, n, f.m), rows(f.cos), gemm.Epilogue{Add: true})
	gemm.Multiply(to, kernel.Of(f.turnedQ, n, f.m), rows(f.sin), gemm.Epilogue{Add: true})
}

// slopeOfBinary is the value at 1 minus that at 0.
func (f *wavesPass) slopeOfBinary(c *column, dx []float32) {
	cos, sin := f.cos.Data[c.at*f.m:(c.at+1)*f.m], f.sin.Data[c.at*f.m:(c.at+1)*f.m]
	for i := range f.n {
		row := f.x[i*f.width : (i+1)*f.width]
		if c.empty(row) {
			continue
		}
		sign := float32(1)
		if row[c.at] < 0.5 {
			sign = -1
		}
		var sum float32
		p, q := f.p[i*f.m:(i+1)*f.m], f.q[i*f.m:(i+1)*f.m]
		for j, v := range p {
			sum += q[j]*sin[j] + sign*v*(1-cos[j])
		}
		dx[i*f.width+c.at] += sum
	}
}

// slopeOfFlag is the value of an empty cell minus that of a filled one.
func (f *wavesPass) slopeOfFlag(c *column, dx []float32) {
	flag, number := f.matrix.Data[c.flag*f.m:(c.flag+1)*f.m], f.matrix.Data[c.at*f.m:(c.at+1)*f.m]
	for i := range f.n {
		row := f.x[i*f.width : (i+1)*f.width]
		sign := float32(1)
		if c.empty(row) {
			sign = -1
		}
		value := 2*unit(row[c.at]) - 1
		if c.kind == encode.HeadNumber {
			value, _ = c.spread(row[c.at])
		}
		var sum float32
		p, q := f.p[i*f.m:(i+1)*f.m], f.q[i*f.m:(i+1)*f.m]
		for j, v := range p {
			s, k := projection.Sincos(flag[j] - value*number[j])
			sum += q[j]*s - sign*v*(1-k)
		}
		dx[i*f.width+c.flag] += sum
	}
}
