package nn

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Network is a sequence of layers. It is not safe for concurrent use: it stores what the last Forward computed for
// Backward. Once it has seen a batch of some size it does not allocate.
type Network struct {
	in, out int // numbers of a record
	shape   Shape
	stages  []stage
	params  []tensor.Param
	pool    *parallel.Pool

	n int
	x []float32
}

type stage struct {
	layer layer
	width int // outputs of a record
	from  int // inputs of a record
	// inPlace says that the outputs replace the inputs, which are no longer needed; fused says that the previous
	// layer has computed them.
	inPlace, fused bool
	// fusedBack says that the next layer computes the gradient before this one.
	fusedBack bool
	y, dx, dy []float32
}

// NewNetwork builds layers for records of shape in, each on the output of the previous one. Weights are drawn from
// rng. With an [Embedding] a record has one more number than in says, its class.
func NewNetwork(rng *rand.Rand, in Shape, specs ...Spec) (*Network, error) {
	net, err := newNetwork(rng, &parallel.Pool{}, in, specs)
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	return net, nil
}

// newNetwork is NewNetwork for a network that shares its processors.
func newNetwork(rng *rand.Rand, pool *parallel.Pool, in Shape, specs []Spec) (*Network, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, errors.New("a network needs at least one layer")
	}
	net := &Network{in: in.Size(), pool: pool}
	shape := in
	for i, s := range specs {
		if s == nil {
			return nil, fmt.Errorf("layer %d is nil", i)
		}
		l, to, err := s.build(rng, shape, net.pool)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		if l != nil {
			from := shape.Size()
			if e, ok := l.(*embedding); ok {
				if i > 0 {
					return nil, fmt.Errorf("layer %d is an embedding, want it first", i)
				}
				net.in, from = e.in(), e.in()
			}
			net.stages = append(net.stages, stage{layer: l, from: from, width: to.Size()})
		}
		shape = to
	}
	if len(net.stages) == 0 {
		return nil, errors.New("the layers compute nothing, want another than Reshape")
	}
	net.shape, net.out = shape, shape.Size()
	net.link()
	return net, nil
}

// link finds what can be computed in place, and lists the parameters.
func (net *Network) link() {
	for _, s := range net.slots() {
		net.params = append(net.params, tensor.Param{Name: s.name, Shape: s.shape, Value: *s.value, Grad: *s.grad})
	}
	for i := range net.stages {
		s := &net.stages[i]
		if d, ok := s.layer.(*dense); ok {
			d.unit = nil
			if i > 1 && net.stages[i-1].fused && d.out == 1 {
				if before, ok := net.stages[i-2].layer.(*dense); ok {
					d.unit = before
					net.stages[i-1].fusedBack = true
				}
			}
		}
		a, ok := s.layer.(*activation)
		if !ok || i == 0 {
			continue
		}
		before := net.stages[i-1].layer
		// Activations need their own outputs for the gradient, others do not.
		if _, ok := before.(*activation); ok {
			continue
		}
		s.inPlace = true
		if r, ok := before.(rectifier); ok && a.kind == ReLU && a.leak > 0 {
			r.rectify(a.leak)
			s.fused = true
		}
	}
}

// slots lists the layers' tensors, first layer first, with names that number the layers that have any.
func (net *Network) slots() []slot {
	var all []slot
	numbered := 0
	for _, s := range net.stages {
		l, ok := s.layer.(weighted)
		if !ok {
			continue
		}
		for _, p := range l.slots() {
			p.name = fmt.Sprintf("layer%d.%s", numbered, p.name)
			all = append(all, p)
		}
		numbered++
	}
	return all
}

// Draw draws new weights.
func (net *Network) Draw(rng *rand.Rand) {
	for _, s := range net.stages {
		if l, ok := s.layer.(weighted); ok {
			l.draw(rng)
		}
	}
}

// In and Out return the number of values of a record at the input and the output, Shape the shape of the output.
func (net *Network) In() int      { return net.in }
func (net *Network) Out() int     { return net.out }
func (net *Network) Shape() Shape { return net.shape }

// SetWorkers bounds the processors that the network uses at a time; 0, as in the
// beginning, means GOMAXPROCS. Results do not depend on it.
func (net *Network) SetWorkers(n int) { net.pool.Limit = n }

// Forward returns the outputs for n records x of shape [n, In], as [n, Out].
// The slice is valid until the next Forward; x must not change before Backward.
func (net *Network) Forward(x []float32, n int) []float32 {
	if n < 0 || len(x) != n*net.in {
		panic(fmt.Sprintf("nn: forward got %d values for %d records of width %d", len(x), n, net.in))
	}
	net.n, net.x = n, x
	for i := range net.stages {
		s := &net.stages[i]
		if s.inPlace {
			s.y = x
		} else {
			s.y = tensor.Resize(s.y, n*s.width)
		}
		if !s.fused {
			s.layer.forward(s.y, x, n)
		}
		x = s.y
	}
	return x
}

// Backward takes the gradient of the loss with respect to the output of the
// last Forward, adds to the parameters' gradients if params is set, and returns
// the gradient with respect to the input if input is set (valid until the next
// Backward).
func (net *Network) Backward(dout []float32, params, input bool) []float32 {
	if len(dout) != net.n*net.out {
		panic(fmt.Sprintf("nn: backward got %d values for %d records of width %d", len(dout), net.n, net.out))
	}
	dy := dout
	for i := len(net.stages) - 1; i >= 0; i-- {
		s := &net.stages[i]
		s.dy = dy
		var dx []float32
		switch {
		case i == 0 && !input:
		case s.inPlace && i < len(net.stages)-1: // dy is our own memory
			dx = dy
		default:
			s.dx = tensor.Resize(s.dx, net.n*s.from)
			dx = s.dx
		}
		if !s.fusedBack {
			s.layer.backward(dx, dy, net.input(i), s.y, net.n, params)
		}
		dy = dx
	}
	return dy
}

// input returns the input of stage i.
func (net *Network) input(i int) []float32 {
	if i == 0 {
		return net.x
	}
	return net.stages[i-1].y
}

// Params lists the network's tensors, first layer first. Layers without any are
// not counted in their names. The caller must not change the list.
func (net *Network) Params() []tensor.Param { return net.params }

// Clone returns a copy with the same weights and its own memory.
func (net *Network) Clone() *Network { return net.clone(&parallel.Pool{Limit: net.pool.Limit}) }

func (net *Network) clone(pool *parallel.Pool) *Network {
	c := &Network{in: net.in, out: net.out, shape: net.shape, pool: pool}
	for _, s := range net.stages {
		c.stages = append(c.stages, stage{layer: s.layer.clone(c.pool), from: s.from, width: s.width})
	}
	c.link()
	return c
}
