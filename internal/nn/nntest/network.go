package nntest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
)

// Network is a network of random size with records for it.
type Network struct {
	In    nn.Shape
	Specs []nn.Spec
	Net   *nn.Network
	X     []float32
	Dout  []float32 // the loss is the sum of dout times the outputs
	N     int
}

// NewNetwork gives all parameters, biases too, values that keep activations near
// 1.
func NewNetwork(t testing.TB, rng *rand.Rand, n int, in nn.Shape, specs ...nn.Spec) *Network {
	t.Helper()
	net, err := nn.NewNetwork(rng, in, specs...)
	if err != nil {
		t.Fatalf("%v %v: %v", in, specs, err)
	}
	for _, p := range net.Params() {
		spread := 0.5
		if len(p.Shape) > 1 {
			fanIn := len(p.Value) / p.Shape[0]
			if len(p.Shape) == 2 {
				fanIn = p.Shape[0] // of a dense layer
			}
			spread = 1.5 / math.Sqrt(float64(fanIn))
		}
		for i := range p.Value {
			p.Value[i] = float32(spread * rng.NormFloat64())
		}
	}
	x := Normals(rng, n*net.In())
	if e, ok := specs[0].(nn.Embedding); ok {
		for i := range n {
			x[(i+1)*net.In()-1] = float32(rng.IntN(e.Classes))
		}
	}
	return &Network{In: in, Specs: specs, Net: net, X: x, Dout: Normals(rng, n*net.Out()), N: n}
}

func (tn *Network) String() string {
	return fmt.Sprintf("%d records of %v, %+v", tn.N, tn.In, tn.Specs)
}

// waves is that of records [lo, hi) in float64.
func (tn *Network) Loss(t testing.TB, params [][]float64, x []float64, lo, hi int) float64 {
	var sum float64
	in, out := tn.Net.In(), tn.Net.Out()
	for i := lo; i < hi; i++ {
		for j, v := range Forward(t, tn.In, tn.Specs, params, x[i*in:(i+1)*in]) {
			sum += float64(tn.Dout[i*out+j]) * v
		}
	}
	return sum
}
