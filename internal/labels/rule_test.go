package labels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// fitted is a rule at random weights, with a scaling that fits the records of a site.
func fitted(t *testing.T, s *question.Site) (*Rule, []float32, []int) {
	t.Helper()
	var x []float32
	var classes []int
	testkit.Must(t, s.Rows.Blocks(t.Context(), func(b *question.Block) error {
		x, classes = append(x, b.Records...), append(classes, b.Classes...)
		return nil
	}))
	scaling, err := Fit(s.Features, s.Numbers, x, 0.01)
	testkit.Must(t, err)
	r := &Rule{scaling, make([]float32, 3*scaling.Width()), []float32{0.1, -0.2, -3}}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range r.Weights {
		r.Weights[i] = float32(rng.NormFloat64())
	}
	return r, x, classes
}

func site(t *testing.T, n int) *question.Site {
	return questiontest.Site(t, units(t, partition.UnitRecord, n, func(int) bool { return true }), 1)
}

// Vectors have the length 1, and entries of a fitted scaling mean 0 and variance 1 before that.
func TestVectorsAreUnitVectors(t *testing.T) {
	r, x, classes := fitted(t, site(t, 500))
	z := make([]float64, r.Width())
	for i := range classes {
		if !r.Of(z, x[i*r.features:(i+1)*r.features]) {
			t.Fatalf("record %d has no direction", i)
		}
		var squares float64
		for _, v := range z {
			squares += v * v
		}
		if math.Abs(squares-1) > 1e-9 {
			t.Errorf("record %d has a vector of norm %v", i, math.Sqrt(squares))
		}
	}
	for name, v := range map[string]float32{"NaN": float32(math.NaN()), "infinite": float32(math.Inf(1))} {
		bad := append([]float32(nil), x[:r.features]...)
		bad[0] = v
		if r.Of(z, bad) || z[1] != 0 {
			t.Errorf("a record with a number that is %s has a direction", name)
		}
	}
	for j := range r.features {
		var sum, squares float64
		for i := range classes {
			v := float64(x[i*r.features+j]-r.mean[j]) * float64(r.scale[j])
			sum, squares = sum+v, squares+v*v
		}
		n := float64(len(classes))
		if math.Abs(sum/n) > 1e-4 || math.Abs(squares/n-1) > 1e-3 {
			t.Errorf("feature %d has mean %v and variance %v", j, sum/n, squares/n)
		}
	}
}

// The sum is the derivative of the log-likelihood of the labels, by differences.
func TestSumIsTheGradientOfTheLogLikelihood(t *testing.T) {
	s := site(t, 200)
	r, x, classes := fitted(t, s)
	likelihood := func() (sum float64) {
		z, shares := make([]float64, r.Width()), make([]float64, 3)
		for i, class := range classes {
			r.Of(z, x[i*r.features:(i+1)*r.features])
			r.Shares(shares, z)
			sum += math.Log(shares[class])
		}
		return sum
	}
	const clip, bound, by = 2, 1 << 20, 1.0 / 128
	sum, err := r.sum(s, clip, bound)
	testkit.Must(t, err)
	for i := range r.Weights {
		before := r.Weights[i]
		r.Weights[i] = before + by
		up := likelihood()
		r.Weights[i] = before - by
		down := likelihood()
		r.Weights[i] = before
		want, got := (up-down)/(2*by), float64(sum[i])*clip/bound
		if math.Abs(want-got) > 0.01+0.001*math.Abs(want) {
			t.Errorf("entry %d is %v, want %v", i, got, want)
		}
	}
}

// Probabilities of large odds do not overflow.
func TestShares(t *testing.T) {
	r := &Rule{Weights: []float32{0.5, 0.5, 1}, Offsets: []float32{9999.5, 9999.5, -1e5}}
	r.Weights[1] += float32(math.Log(3))
	shares := make([]float64, 3)
	r.Shares(shares, []float64{1})
	for c, want := range []float64{0.25, 0.75, 0} {
		if math.Abs(shares[c]-want) > 1e-6 {
			t.Errorf("class %d has %v, want %v", c, shares[c], want)
		}
	}
}
