package nn

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// ClippedSteps adds up clipped gradients of privacy units in whole steps: a unit adds a vector of integers whose
// L2 norm is at most bound, exactly. A float32 sum of clipped gradients has no such bound: every addition rounds,
// by an amount that depends on all the others (Casacuberta et al. 2022, "Widespread underestimation of sensitivity
// in differentially private libraries").
//
// With g the gradient of a unit's loss with respect to all parameters, as computed in float32 with any error, a
// unit adds
//
//	v = trunc(g s),  s <= bound / max(clip, |g|)
//
// where trunc rounds towards zero: s steps stand for 1, so the sum times clip/bound is that of the gradients
// clipped to norm clip. [stepScale] has the proof that |v| <= bound.
//
// This is the sensitivity of the sum for two reasons. Integers are added without rounding, in any order. And every
// bit of v depends only on the unit and the weights, not on other units computed at the same time: layers treat
// records independently, and so do the kernels (see package gemm). So the sum is also the same for any number of
// processors and any division of units among calls of Add.
//
// A unit whose gradient is not finite, or has a norm above 1e38, adds zeros and is counted. It is not safe for
// concurrent use.
type ClippedSteps struct {
	net    *Network
	values []*[]float32 // the network's tensors
	clip   float64
	bound  int64
	total  sync.Mutex // guards sum while workers run
	sum    []int64

	pool    parallel.Pool
	task    parallel.Task
	workers []*stepsWorker
	job     stepsJob
}

// stepsJob is the current call of Add.
type stepsJob struct {
	x      []float32
	units  []int
	heads  []int
	loss   losses.Loss
	groups []stepsGroup
}

// stepsGroup is a range of units that a worker processes together: units [first, last), whose records start at
// row.
type stepsGroup struct{ first, last, row int }

const (
	// minBound keeps scaled gradients away from numbers too small for float32.
	minBound = 1e-18
	// maxStepsBound leaves room for sums of 2,047 units in int32 numbers.
	maxStepsBound = 1 << 20
	// maxStepsSize bounds the parameters, and so the rounding error of a norm.
	maxStepsSize = 1 << 28
	// groupRows is the largest number of records computed together, unless one unit has more: enough to repay
	// packing the weights for a product.
	groupRows = 48
)

// NewClippedSteps makes an empty sum for a network. clip is the norm to which gradients are clipped, from 1e-18 to
// the largest float32; bound is that norm in steps, from 1 to 2^20.
func NewClippedSteps(net *Network, clip float64, bound int64) (*ClippedSteps, error) {
	if !(clip >= minBound && clip <= math.MaxFloat32) {
		return nil, fmt.Errorf("nn: clip gradients to norm %v, want a number from %v to %v",
			clip, minBound, math.MaxFloat32)
	}
	if bound < 1 || bound > maxStepsBound {
		return nil, fmt.Errorf("nn: clip gradients to %d steps, want 1 to %d", bound, maxStepsBound)
	}
	for _, s := range net.stages {
		if _, ok := s.layer.(*residual); ok {
			return nil, errors.New("nn: gradients of a residual block in steps are not available; use other layers")
		}
	}
	c := &ClippedSteps{net: net, clip: clip, bound: bound}
	size := 0
	for _, p := range net.slots() {
		c.values = append(c.values, p.value)
		size += len(*p.value)
	}
	if size > maxStepsSize {
		return nil, fmt.Errorf("nn: gradients of %d parameters in steps, want at most %d", size, maxStepsSize)
	}
	c.sum = make([]int64, size)
	c.task = c.addGroup
	return c, nil
}

// Add adds the gradients of units at the network's current weights. x holds their records, shape [records, In];
// unit i has the next units[i] of them, at least 1.
//
// A unit's loss is that of its records' scores as real ones; nil means [losses.Logistic]. Several goroutines may
// call it concurrently. heads gives the network output that is the score of each record; nil means the only one.
// All records of a unit are computed together, as by [Network.Forward]. After an error nothing is added.
func (c *ClippedSteps) Add(x []float32, units, heads []int, loss losses.Loss) error {
	in := c.net.In()
	if err := c.divide(units, len(x)/in); err != nil {
		return err
	}
	if len(x)%in != 0 {
		return fmt.Errorf("nn: units' records are not whole, want %d numbers of each", in)
	}
	if err := c.checkHeads(heads, len(x)/in); err != nil {
		return err
	}
	c.job.x, c.job.units, c.job.heads, c.job.loss = x, units, heads, loss
	c.pool.Limit = c.net.pool.Limit
	for len(c.workers) < min(c.pool.Size(), len(c.job.groups)) {
		c.workers = append(c.workers, newStepsWorker(c))
	}
	for _, w := range c.workers {
		for i, v := range c.values {
			*w.values[i] = *v
		}
	}
	c.pool.Each(len(c.job.groups), c.task)
	c.job.x, c.job.units, c.job.heads, c.job.loss = nil, nil, nil, nil
	return nil
}

// checkHeads checks that each record has an output of the network.
func (c *ClippedSteps) checkHeads(heads []int, records int) error {
	out := c.net.Out()
	if heads == nil {
		if out != 1 && records > 0 {
			return fmt.Errorf("nn: gradients of a network of %d outputs in steps, want a head for each record", out)
		}
		return nil
	}
	if len(heads) != records {
		return fmt.Errorf("nn: %d heads for other records, want as many", len(heads))
	}
	for i, h := range heads {
		if h < 0 || h >= out {
			return fmt.Errorf("nn: head %d of record %d, want 0 to %d", h, i, out-1)
		}
	}
	return nil
}

// divide makes groups of the units, which must use all records.
func (c *ClippedSteps) divide(units []int, records int) error {
	groups, row, rows := c.job.groups[:0], 0, groupRows
	for i, n := range units {
		if n < 1 {
			return fmt.Errorf("nn: unit %d of those to add has no records, want at least 1", i)
		}
		if n > records-row {
			return errors.New("nn: units have more records than there are, want as many")
		}
		if rows += n; rows > groupRows {
			groups, rows = append(groups, stepsGroup{first: i, row: row}), n
		}
		groups[len(groups)-1].last = i + 1
		row += n
	}
	if row < records {
		return errors.New("nn: units have fewer records than there are, want as many")
	}
	c.job.groups = groups
	return nil
}

// Sum returns the sum over all parameters, in the order of [Network.Params]. It is
// valid until the next Add or Reset, and must not be changed.
func (c *ClippedSteps) Sum() []int64 {
	for _, w := range c.workers {
		w.flush()
	}
	return c.sum
}

// LeftOut returns how many units contributed zeros because their gradients were not finite. It depends on single
// units and must not be released.
func (c *ClippedSteps) LeftOut() int {
	n := 0
	for _, w := range c.workers {
		n += w.leftOut
	}
	return n
}

// Reset starts a new sum.
func (c *ClippedSteps) Reset() {
	c.Sum()
	clear(c.sum)
	for _, w := range c.workers {
		w.leftOut = 0
	}
}
