package nn_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A record's score is only its head: the sum equals that of networks whose only output is the head, and the
// weights of other outputs get zeros.
func TestStepsOfHeadsAreThoseOfTheirOutputs(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	const in, hidden, out, n, bound = 6, 9, 3, 40, 1 << 12
	heads, err := nn.NewNetwork(rng, nn.Vector(in), nn.Dense{Out: hidden}, nn.LeakyReLU(0.2), nn.Dense{Out: out})
	testkit.Must(t, err)
	x := make([]float32, n*in)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for head := range out {
		one, err := nn.NewNetwork(rng, nn.Vector(in), nn.Dense{Out: hidden}, nn.LeakyReLU(0.2), nn.Dense{Out: 1})
		testkit.Must(t, err)
		from, to := heads.Params(), one.Params()
		copy(to[0].Value, from[0].Value)
		copy(to[1].Value, from[1].Value)
		for j := range hidden {
			to[2].Value[j] = from[2].Value[j*out+head]
		}
		to[3].Value[0] = from[3].Value[head]

		units := someUnits(rng, n)
		want := newSteps(t, one, 0.3, bound)
		addSteps(t, want, x, units, nil)
		got := newSteps(t, heads, 0.3, bound)
		testkit.Must(t, got.Add(x, units, slices.Repeat([]int{head}, n), nil))
		first := in*hidden + hidden
		for i, v := range got.Sum() {
			var w int64
			switch j := i - first; {
			case j < 0:
				w = want.Sum()[i]
			case j < hidden*out && j%out == head:
				w = want.Sum()[first+j/out]
			case j == hidden*out+head:
				w = want.Sum()[first+hidden]
			}
			// The last bits of a product may differ, and so what is cut off.
			if d := v - w; d < -n || d > n {
				t.Fatalf("head %d: number %d is %d, of a network of one output %d", head, i, v, w)
			}
			if w == 0 && v != 0 && i >= first && (i-first)%out != head && i < first+hidden*out {
				t.Fatalf("head %d: number %d, of another output, is %d", head, i, v)
			}
		}
	}
}

func TestHeadsAreChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 74))
	net, err := nn.NewNetwork(rng, nn.Vector(2), nn.Dense{Out: 3})
	testkit.Must(t, err)
	c, x := newSteps(t, net, 1, 100), make([]float32, 4)
	for name, heads := range map[string][]int{"none": nil, "too few": {0}, "too large": {0, 3}, "negative": {-1, 0}} {
		if err := c.Add(x, []int{1, 1}, heads, nil); err == nil || !strings.Contains(err.Error(), "head") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := c.Add(nil, nil, nil, nil); err != nil {
		t.Errorf("nobody: error %v", err) // an empty list of heads is nil
	}
	if slices.ContainsFunc(c.Sum(), func(v int64) bool { return v != 0 }) {
		t.Error("a refused call added something")
	}
}
