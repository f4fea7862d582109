package nn

import (
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// stepsWorker processes some of the units, with its own network that reads the caller's weights.
type stepsWorker struct {
	*Replica
	c       *ClippedSteps
	layers  []stepsLayer
	acc     []int32 // contributions of pending units; most of them fit in
	held    int
	most    int
	leftOut int // units
	// singles has, for each record of a group, the scale of its unit; it is 0 if the unit has more records or is
	// left out.
	singles []float32
	scores  []float32
	// picked holds the scores of a group's heads, dy the gradients with respect to all outputs.
	picked, dy []float32
}

// stepsLayer is a layer with parameters, at [lo, hi) among all.
type stepsLayer struct {
	stage  *stage
	index  int
	lo, hi int
	// dense is nil for other layers. For one record, the gradient of a dense layer's weights is an outer product,
	// which need not be stored.
	dense *dense
}

func newStepsWorker(c *ClippedSteps) *stepsWorker {
	w := &stepsWorker{Replica: NewReplica(c.net.Clone()), c: c}
	w.acc, w.most = make([]int32, len(c.sum)), int(math.MaxInt32/c.bound)
	at := 0
	for i := range w.Net.stages {
		l, ok := w.Net.stages[i].layer.(weighted)
		if !ok {
			continue
		}
		part := stepsLayer{stage: &w.Net.stages[i], index: i, lo: at}
		for _, s := range l.slots() {
			at += len(*s.grad)
		}
		part.hi = at
		part.dense, _ = l.(*dense)
		w.layers = append(w.layers, part)
	}
	return w
}

// addGroup adds the units of one group. All their records go through the network together; gradients with respect
// to the parameters are computed for each unit.
func (c *ClippedSteps) addGroup(part int, p *parallel.Worker) {
	w, group, in := c.workers[p.Index], c.job.groups[part], c.net.In()
	units := c.job.units[group.first:group.last]
	if w.held+len(units) > w.most {
		w.flush()
	}
	w.held += len(units)
	n := 0
	for _, k := range units {
		n += k
	}
	w.singles = tensor.Resize(w.singles, n)
	y := w.Net.Forward(c.job.x[group.row*in:(group.row+n)*in], n)
	w.Net.Backward(w.gradients(y, units, group.row), false, false)
	row := 0
	for _, k := range units {
		w.addUnit(row, k)
		row += k
	}
	w.addSingles()
}

// gradients returns the gradients of the units' losses with respect to the outputs y of their records. The
// first of these records is at row of all. The gradient is 0 for outputs that are not a record's head.
func (w *stepsWorker) gradients(y []float32, units []int, row int) []float32 {
	out, heads := w.Net.Out(), w.c.job.heads
	n := len(y) / out
	w.scores = tensor.Resize(w.scores, n)
	scores := y
	if heads != nil {
		heads = heads[row : row+n]
		w.picked = tensor.Resize(w.picked, n)
		scores = w.picked
		for i, h := range heads {
			scores[i] = y[i*out+h]
		}
	}
	at := 0
	for _, k := range units {
		w.c.job.loss.Gradient(w.scores[at:at+k], scores[at:at+k], true)
		at += k
	}
	if heads == nil {
		return w.scores
	}
	w.dy = tensor.Resize(w.dy, len(y))
	clear(w.dy)
	for i, h := range heads {
		w.dy[i*out+h] = w.scores[i]
	}
	return w.dy
}

// addUnit adds the contribution of the unit with the k records from row on, without outer products.
func (w *stepsWorker) addUnit(row, k int) {
	clear(w.singles[row : row+k])
	square := 0.0
	for _, l := range w.layers {
		x, dy := w.ends(l, row, k)
		if l.dense != nil && k == 1 {
			square += (vector.SumSquares64(x) + 1) * vector.SumSquares64(dy)
			continue
		}
		g := w.Grad[l.lo:l.hi]
		clear(g)
		l.stage.layer.backward(nil, dy, x, nil, k, true)
		square += vector.SumSquares64(g)
	}
	scale := stepScale(square, w.c.clip, w.c.bound)
	if scale == 0 {
		w.leftOut++
		return
	}
	if k == 1 {
		w.singles[row] = scale
	}
	for _, l := range w.layers {
		if l.dense != nil && k == 1 {
			_, dy := w.ends(l, row, k)
			vector.AddTruncated(w.acc[l.hi-l.dense.out:l.hi], dy, scale)
			continue
		}
		vector.AddTruncated(w.acc[l.lo:l.hi], w.Grad[l.lo:l.hi], scale)
	}
}

// addSingles adds the gradients of dense layers' weights for units with one record.
func (w *stepsWorker) addSingles() {
	for lo := 0; lo < len(w.singles); {
		hi := lo
		for hi < len(w.singles) && w.singles[hi] != 0 {
			hi++
		}
		for _, l := range w.layers {
			if l.dense != nil {
				x, dy := w.ends(l, lo, hi-lo)
				vector.AddTruncatedOuter(w.acc[l.lo:l.hi-l.dense.out], x, dy, w.singles[lo:hi])
			}
		}
		lo = hi + 1
	}
}

// ends returns the inputs of a layer for k records from row on, and the gradients with respect to its outputs.
func (w *stepsWorker) ends(l stepsLayer, row, k int) (x, dy []float32) {
	from, width := l.stage.from, l.stage.width
	return w.Net.input(l.index)[row*from : (row+k)*from], l.stage.dy[row*width : (row+k)*width]
}

// flush adds the pending contributions to the sum.
func (w *stepsWorker) flush() {
	if w.held == 0 {
		return
	}
	w.c.total.Lock()
	defer w.c.total.Unlock()
	sum := w.c.sum[:len(w.acc)]
	for i, v := range w.acc {
		sum[i] += int64(v)
	}
	clear(w.acc)
	w.held = 0
}

const (
	// stepSlack is how much the scale is reduced to allow for all rounding.
	stepSlack = 0x1p-22
	// maxStepNorm keeps products that are not stored within float32.
	maxStepNorm = 1e38
)

// stepScale returns the scale of a unit, given the squared norm of its gradient as
// computed; 0 if the unit is to be left out. The vector v = trunc(fl(g s)), where fl
// rounds to float32, then has a norm of at most bound:
//
// The square n of the norm |g| is a sum in float64 of d <= 2^28 squares that float64
// holds exactly, in any order, so n >= |g|^2 (1 - d 2^-53) and |g| <= sqrt(n) (1 +
// 2^-25). (d counts the sums of layers' squares too.) For the outer product of x and
// y, of a dense layer's weights, n has (|x| |y|)^2 instead, with as small an error,
// and g_ij = fl(x_i y_j) is at most |x_i y_j| (1 + 2^-24) in magnitude, unless it is
// below 2^-126. It is then no more than 2^-126 after rounding, and with s <= 2^80
// cut to 0.
//
// fl(g_i s) is at most |g_i| s (1 + 2^-24), unless it is below 2^-126 and cut to 0.
// Cutting makes no number larger. Together |v| <= s sqrt(n) (1 + 2^-25) (1 + 2^-24)^2
// < s sqrt(n) (1 + 2^-22 - 2^-24). With s <= bound (1 - 2^-22) / sqrt(n) but for some
// roundings of float64, 2^-52 each, this is less than bound.
//
// Entries are at most bound in magnitude for the same reason. n is not finite if an
// entry of g is not: squares of float32 numbers do not overflow float64.
func stepScale(square, clip float64, bound int64) float32 {
	norm := math.Sqrt(square)
	if !(norm <= maxStepNorm) { // NaN too
		return 0
	}
	return roundDown(float64(bound) * (1 - stepSlack) / max(norm, clip))
}

// roundDown returns a float32 that is at most x, except for the last bits of x.
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
