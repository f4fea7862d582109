package tilt

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func testEncoder(t testing.TB) *encode.Encoder {
	t.Helper()
	return encode.New(partitiontest.Schema(t, partitiontest.Mixed))
}

func testMover(t testing.TB, steps int) *Mover {
	t.Helper()
	e := testEncoder(t)
	s, err := pipeline.NewNetworkStudent("test", e, pipeline.GeneratorSpec{Noise: 16, Hidden: 64, Layers: 2,
		Classes: 2},
		1e-3, rand.NewPCG(1, 0x5eed))
	testkit.Must(t, err)
	return New(s, e, steps)
}

// pull is the gradient of the distance of a record's feature values to the target, with the other records' mean
// in place of the expectation: by derivative for numbers, by choice for the rest.
func TestFeatureGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	heads := testEncoder(t).Heads()
	const n, w, count = 6, 7, 40
	x, numbers := make([]float32, n*w), make([]float32, n*w)
	record := func(r, number []float32) {
		for j := range number {
			number[j] = rng.Float32()
		}
		copy(r, []float32{number[0], number[1], float32(rng.IntN(2)), 0, 0, 0, float32(rng.IntN(2))})
		if r[2] == 1 {
			r[1] = 0.5
		}
		r[3+rng.IntN(3)] = 1
	}
	for i := range n {
		record(x[i*w:(i+1)*w], numbers[i*w:(i+1)*w])
	}
	classes := []int{0, 1, 0, 1, 1, 0}
	f := newFeatures(rng, count, x, w, heads)
	target := make([]float32, 2*count)
	for i := range target {
		target[i] = rng.Float32()
	}
	feature := func(r []float32, k int) float64 {
		a := float64(f.b[k])
		for j := range w {
			a += float64(f.w[k*w+j] * r[j])
		}
		return math.Cos(a)
	}
	// loss is what record i contributes if it were r.
	loss := func(i int, r []float32) float64 {
		var sum float64
		for k := range count {
			var others float64
			for o, c := range classes {
				if c == classes[i] && o != i {
					others += feature(x[o*w:(o+1)*w], k) / 2
				}
			}
			sum += 2. / count / 3 * (others - float64(target[classes[i]*count+k])) * feature(r, k)
		}
		return sum
	}
	grad := make([]float32, n*w)
	f.pull(grad, x, numbers, classes, target, 2)
	check := func(i int, what string, got float32, want float64) {
		t.Helper()
		if math.Abs(want-float64(got)) > 0.01*(0.1+math.Abs(want)) {
			t.Errorf("record %d, %s: gradient %v, want %v", i, what, got, want)
		}
	}
	for i := range n {
		with := func(set map[int]float32) float64 {
			r := append([]float32(nil), x[i*w:(i+1)*w]...)
			for j, v := range set {
				r[j] = v
			}
			return loss(i, r)
		}
		g, at := grad[i*w:(i+1)*w], x[i*w:(i+1)*w]
		const h = 1e-3
		check(i, "number", g[0], (with(map[int]float32{0: at[0] + h})-with(map[int]float32{0: at[0] - h}))/(2*h))
		check(i, "nullable number", g[1],
			(with(map[int]float32{1: at[1] + h})-with(map[int]float32{1: at[1] - h}))/(2*h))
		check(i, "empty", g[2], with(map[int]float32{1: 0.5, 2: 1})-with(map[int]float32{1: numbers[i*w+1], 2: 0}))
		check(i, "category 1 less 0", g[4]-g[3],
			with(map[int]float32{3: 0, 4: 1, 5: 0})-with(map[int]float32{3: 1, 4: 0, 5: 0}))
		check(i, "category 2 less 0", g[5]-g[3],
			with(map[int]float32{3: 0, 4: 0, 5: 1})-with(map[int]float32{3: 1, 4: 0, 5: 0}))
		check(i, "flag", g[6], with(map[int]float32{6: 1})-with(map[int]float32{6: 0}))
	}
}

// Choices at the beginning of a record count like others, for features of one column and of several.
func TestChoicesAreMeasured(t *testing.T) {
	heads := []encode.Head{{Kind: encode.HeadCategory, Width: 3}, {Kind: encode.HeadBinary, Offset: 3, Width: 1}}
	const w, count = 4, 60
	rng := rand.New(rand.NewPCG(1, 1))
	records := [][]float32{{1, 0, 0, 0}, {0, 1, 0, 1}, {0, 0, 1, 0}, {1, 0, 0, 1}}
	x := slices.Concat(records...)
	f := newFeatures(rng, count, x, w, heads)
	target, grad := make([]float32, count), make([]float32, len(x))
	f.pull(grad, x, x, make([]int, len(records)), target, 1)
	feature := func(r []float32, k int) float64 {
		a := float64(f.b[k])
		for j, v := range r {
			a += float64(f.w[k*w+j] * v)
		}
		return math.Cos(a)
	}
	loss := func(i int, r []float32) (sum float64) {
		for k := range count {
			others := 0.
			for o, x := range records {
				if o != i {
					others += feature(x, k) / 3
				}
			}
			sum += 2. / count / 4 * others * feature(r, k)
		}
		return sum
	}
	for i, r := range records {
		with := func(category int, flag float32) float64 {
			c := make([]float32, w)
			c[category], c[3] = 1, flag
			return loss(i, c)
		}
		taken, g := slices.Index(r[:3], 1), grad[i*w:]
		for j := range 2 {
			if got, want := float64(g[j+1]-g[j]), with(j+1, r[3])-with(j, r[3]); math.Abs(got-want) > 1e-5 {
				t.Errorf("record %d: category %d less the one before it is %v, want %v", i, j+1, got, want)
			}
		}
		if got, want := float64(g[3]), with(taken, 1)-with(taken, 0); math.Abs(got-want) > 1e-5 {
			t.Errorf("record %d: the flag is %v, want %v", i, got, want)
		}
	}
}

// The mean is that of each class, for any number of records.
func TestMeanOfFeatures(t *testing.T) {
	heads := testEncoder(t).Heads()
	const w, count, n = 7, 30, 3*chunk + 5
	rng := rand.New(rand.NewPCG(1, 1))
	x, classes, weights := make([]float32, n*w), make([]int, n), make([]float32, n)
	for i := range x {
		x[i] = rng.Float32()
	}
	f := newFeatures(rng, count, x, w, heads)
	got, want := make([]float32, 3*count), make([]float64, 3*count)
	for i := range n {
		classes[i], weights[i] = rng.IntN(3), rng.Float32()/n
		for k := range count {
			a := float64(f.b[k])
			for j := range w {
				a += float64(f.w[k*w+j] * x[i*w+j])
			}
			want[classes[i]*count+k] += float64(weights[i]) * math.Cos(a)
		}
	}
	f.mean(got, x, classes, weights)
	for i, v := range want {
		if math.Abs(float64(got[i])-v) > 1e-5 {
			t.Errorf("class %d, feature %d: %v, want %v", i/count, i%count, got[i], v)
		}
	}
}

// Fitted to its own records repeatedly, a generator does not change: it neither narrows nor drifts to a few
// categories.
func TestFitKeepsADistribution(t *testing.T) {
	if testing.Short() {
		t.Skip("fits a generator 6 times")
	}
	tr := testMover(t, 50)
	w := tr.generator().Width()
	const pool = 4096
	classes, weights, x := pipeline.Balanced(pool, 2), make([]float32, pool), make([]float32, pool*w)
	for i := range weights {
		weights[i] = 2. / pool
	}
	spreadOf := func() []float64 {
		tr.generator().Sample(x, classes, tr.of.Rand)
		return spreads(x, w)
	}
	before := spreadOf()
	for range 6 {
		tr.generator().Sample(x, classes, tr.of.Rand)
		tr.fit(context.Background(), x, classes, weights, 50)
	}
	for j, now := range spreadOf() {
		t.Logf("column %d: spread %.3f, then %.3f", j, before[j], now)
		if now < 0.84*before[j] || now > 1.15*before[j] {
			t.Errorf("column %d: spread %.3f became %.3f", j, before[j], now)
		}
	}
}

// Weights add up to 1 in each class, follow the tilt, and the effective share is
// that of the formula.
func TestWeigh(t *testing.T) {
	tr := testMover(t, 3)
	tilt := []float32{0, 100, 1, 100, 2, 100}
	weights := make([]float32, 6)
	share := tr.weigh(weights, tilt, []int{0, 1, 0, 1, 0, 1}, 0.5)
	e := []float64{1, math.Exp(0.5), math.Exp(1)}
	sum := e[0] + e[1] + e[2]
	for k := range e {
		if got := float64(weights[2*k]); math.Abs(got-e[k]/sum) > 1e-6 {
			t.Errorf("weight %d of class 0 is %v, want %v", k, got, e[k]/sum)
		}
		if got := weights[2*k+1]; math.Abs(float64(got)-1./3) > 1e-6 {
			t.Errorf("weight %d of class 1 is %v, want a third", k, got)
		}
	}
	if want := sum * sum / (e[0]*e[0] + e[1]*e[1] + e[2]*e[2]) / 3; math.Abs(share-want) > 1e-6 {
		t.Errorf("effective share is %v, want %v", share, want)
	}
}
