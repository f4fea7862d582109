package nn

import (
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// exampleNorm is the squared norm of a record's gradient as computed; a number
// that it cannot exceed, divided by the scale after the record's rows were scaled;
// and how much more that gradient may be where scaled numbers are too small for
// float32, in units of the smallest one.
type exampleNorm struct{ square, upper, small float64 }

func (e *exampleNorm) add(norm, upper, small float64) {
	e.square += norm * norm
	// float64 rounds too, by far less than this.
	e.upper += upper * upper * (1 + 1e-10)
	e.small += small
}

const (
	// unit is the largest relative error of a float32 operation, tiny more than
	// the largest absolute one of a number too small for it.
	unit = 0x1p-24
	tiny = 0x1p-126
)

// gamma bounds the relative error of a sum of k products in any order by the sum
// of their magnitudes (Higham 2002, section 3.1).
func gamma(k int) float64 {
	if x := float64(k) * unit; x < 0.5 {
		return x / (1 - x)
	}
	return math.Inf(1)
}

// addNorms of a dense layer: the gradient of W is the outer product of dy and x,
// that of b is dy, so the norm is that of dy times that of (x, 1).
func (d *dense) addNorms(norms []exampleNorm, dy, x []float32, n int) {
	for i := range n {
		length := math.Sqrt(squares(x[i*d.in:(i+1)*d.in]) + 1)
		norm := length * math.Sqrt(squares(dy[i*d.out:(i+1)*d.out]))
		norms[i].add(norm, norm*(1+2*unit), length*math.Sqrt(float64(d.out)))
	}
}

// addNorms of an embedding: the gradient of a class's numbers is dy.
func (e *embedding) addNorms(norms []exampleNorm, dy, _ []float32, n int) {
	for i := range n {
		var sum float64
		for p := range e.pixels {
			sum += squares(dy[i*e.out()+p*(e.own+e.width)+e.own:][:e.width])
		}
		norms[i].add(math.Sqrt(sum), math.Sqrt(sum)*(1+2*unit), math.Sqrt(float64(e.pixels*e.width)))
	}
}

func (c *convolution) addNorms(norms []exampleNorm, dy, x []float32, n int) {
	c.batch = convBatch{x: x, dy: dy, n: n, norms: norms}
	c.pool.Each(n, c.tasks.norm)
	c.batch = convBatch{}
}

// normPart adds the norm of one record. With c_t the patch and d_t the side
// vector at position t, the gradient of W is the sum of the outer products d_t
// c_t^T. Its squared norm is also the sum over t and u of (c_t c_u) (d_t d_u),
// which is cheaper where positions are few.
func (c *convolution) normPart(i int, w *parallel.Worker) {
	b := &c.batch
	images, sides, dys := b.x, b.dy, c.sides
	if c.transposed {
		images, sides, dys = b.dy, b.x, c.images
	}
	c.addBiasNorm(&b.norms[i], dys(b.dy, i, i+1), w)

	t, k, o := c.positions(), c.size(), c.side
	gram := t*(k+o) < k*o
	extra := k * o
	if gram {
		extra = 2 * t * t
	}
	memory := w.Floats(t*k + extra)
	c.gather(memory[:t*k], c.images(images, i, i+1))
	cols, side := kernel.Of(memory[:t*k], t, k), kernel.Of(c.sides(sides, i, i+1), t, o)
	if gram {
		p, q := kernel.Of(memory[t*k:t*k+t*t], t, t), kernel.Of(memory[t*k+t*t:], t, t)
		gemm.Multiply(p, cols, cols.T(), gemm.Epilogue{})
		gemm.Multiply(q, side, side.T(), gemm.Epilogue{})
		b.norms[i].add(gramNorm(p, q, k, o))
		return
	}
	g := kernel.Of(memory[t*k:], o, k)
	gemm.Multiply(g, side.T(), cols, gemm.Epilogue{})
	norm := math.Sqrt(squares(g.Data))
	var reach, patches, sideVectors float64
	for j := range t {
		p, q := math.Sqrt(squares(memory[j*k:(j+1)*k])), math.Sqrt(squares(side.Data[j*o:(j+1)*o]))
		reach, patches, sideVectors = reach+p*q, patches+p, sideVectors+q
	}
	b.norms[i].add(norm, norm+(gamma(t)+unit)*reach+float64(t)*tiny*math.Sqrt(float64(o*k)),
		smallIn(patches, k, sideVectors, o))
}

// gramNorm returns the norm from the products p = C C^T and q = D D^T of the
// patches, of k numbers, and the side vectors, of o. Each product is off by at
// most gamma times the lengths of its two vectors, so the squared norm by at most
// that times the square of reach, the sum over t of the lengths' products.
func gramNorm(p, q kernel.Matrix, k, o int) (norm, upper, small float64) {
	var sum, reach, lengthsP, lengthsQ float64
	gp, gq := gamma(k), gamma(o)
	for t := range p.Rows {
		rowP, rowQ := p.Data[t*p.Cols:][:t+1], q.Data[t*q.Cols:][:t+1]
		var s float64
		for u, v := range rowP[:t] {
			s += float64(v) * float64(rowQ[u])
		}
		// Both are symmetric up to rounding, which gamma covers.
		sum += 2*s + float64(rowP[t])*float64(rowQ[t])
		lengthP := math.Sqrt((float64(rowP[t]) + float64(k)*tiny) / (1 - gp))
		lengthQ := math.Sqrt((float64(rowQ[t]) + float64(o)*tiny) / (1 - gq))
		reach += lengthP * lengthQ
		lengthsP += lengthP
		lengthsQ += lengthQ
	}
	// No max: it would hide NaN.
	if sum < 0 {
		sum = 0
	}
	above := (gp + gq + gp*gq) * reach * reach
	below := float64(k)*tiny*lengthsQ*lengthsQ + float64(o)*tiny*lengthsP*lengthsP
	return math.Sqrt(sum), math.Sqrt(sum+above+2*below) + unit*reach, smallIn(lengthsP, k, lengthsQ, o)
}

// smallIn bounds what an error of 1 in every number of the patches, of k numbers,
// or of the side vectors, of o, changes, given the sums of their lengths.
func smallIn(patches float64, k int, sides float64, o int) float64 {
	return patches*math.Sqrt(float64(o)) + sides*math.Sqrt(float64(k))
}

// addBiasNorm adds the norm of the columns' sums of dy.
func (c *convolution) addBiasNorm(norm *exampleNorm, dy []float32, w *parallel.Worker) {
	sums := w.Zeros(len(c.b))
	for at := 0; at < len(dy); at += len(sums) {
		for j, v := range dy[at : at+len(sums)] {
			sums[j] += float64(v)
		}
	}
	var square float64
	for _, v := range sums {
		square += v * v
	}
	rows := float64(len(dy) / len(sums))
	length := math.Sqrt(square)
	norm.add(length, length+2*unit*math.Sqrt(rows*squares(dy)), rows*math.Sqrt(float64(len(sums))))
}

// squares returns the sum of x's squares, of any finite x without overflow.
func squares(x []float32) float64 {
	var a, b, c, d float64
	for len(x) >= 4 {
		p, q, r, s := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		a, b, c, d = a+p*p, b+q*q, c+r*r, d+s*s
		x = x[4:]
	}
	for _, v := range x {
		a += float64(v) * float64(v)
	}
	return (a + b) + (c + d)
}
