package nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// Residual is a block of layers whose output is added to that of a shortcut around them ("Deep residual learning for
// image recognition", arXiv 1512.03385). Both have the same shape. Without layers the shortcut is the input.
//
// Networks here have no batch normalization, since it makes records depend on each other. If the body's last layer
// begins with the weights 0 ([Zeros]), the block begins as its shortcut and deep networks train without it (Zhang et
// al. 2019, "Fixup initialization").
type Residual struct{ Body, Shortcut []Spec }

func (s Residual) build(rng *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error) {
	r := &residual{}
	var err error
	if r.body, err = newNetwork(rng, p, in, s.Body); err != nil {
		return nil, Shape{}, fmt.Errorf("body: %w", err)
	}
	to := in
	if len(s.Shortcut) > 0 {
		if r.shortcut, err = newNetwork(rng, p, in, s.Shortcut); err != nil {
			return nil, Shape{}, fmt.Errorf("shortcut: %w", err)
		}
		to = r.shortcut.shape
	}
	if r.body.shape != to {
		return nil, Shape{}, fmt.Errorf("a body to %v and a shortcut to %v cannot be added", r.body.shape, to)
	}
	if r.body.in != in.Size() || r.shortcut != nil && r.shortcut.in != in.Size() {
		return nil, Shape{}, fmt.Errorf("an embedding in a residual block, want it first in the network")
	}
	return r, to, nil
}

// residual stores the last batch in its networks. So its backward is always that of its last forward.
type residual struct{ body, shortcut *Network } // shortcut is nil for the input itself

func (r *residual) forward(y, x []float32, n int) {
	copy(y, r.body.Forward(x, n))
	if r.shortcut != nil {
		x = r.shortcut.Forward(x, n)
	}
	vector.AddScaled(y, x, 1)
}

func (r *residual) backward(dx, dy, _, _ []float32, _ int, params bool) {
	input := dx != nil
	copy(dx, r.body.Backward(dy, params, input))
	if r.shortcut != nil {
		dy = r.shortcut.Backward(dy, params, input)
	}
	if input {
		vector.AddScaled(dx, dy, 1)
	}
}

func (r *residual) draw(rng *rand.Rand) {
	r.body.Draw(rng)
	if r.shortcut != nil {
		r.shortcut.Draw(rng)
	}
}

func (r *residual) slots() (all []slot) {
	for _, p := range r.body.slots() {
		p.name = "body." + p.name
		all = append(all, p)
	}
	if r.shortcut == nil {
		return all
	}
	for _, p := range r.shortcut.slots() {
		p.name = "shortcut." + p.name
		all = append(all, p)
	}
	return all
}

func (r *residual) clone(p *parallel.Pool) layer {
	c := &residual{body: r.body.clone(p)}
	if r.shortcut != nil {
		c.shortcut = r.shortcut.clone(p)
	}
	return c
}
