package embedding_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const mixed = `name: mixed
label: y
columns:
  - {name: a, kind: continuous, lower: 0, upper: 10}
  - {name: b, kind: continuous, lower: -1, upper: 1, nullable: true}
  - {name: c, kind: integer, lower: 0, upper: 4}
  - {name: d, kind: binary}
  - {name: e, kind: binary, nullable: true}
  - {name: f, kind: categorical, categories: [u, v]}
  - {name: g, kind: categorical, categories: [u, v, w], nullable: true}
  - {name: y, kind: categorical, categories: [p, q, r]}
`

func encoder(t testing.TB, text string) *encode.Encoder {
	t.Helper()
	s := partitiontest.Schema(t, text)
	return encode.New(s)
}

// everything is a part of each kind.
var everything = []embedding.Part{
	{Kind: embedding.Ones, Weight: 0.5},
	{Kind: embedding.Columns, Weight: 1, Bins: 7},
	{Kind: embedding.Pairs, Weight: 2, Bins: 6},
	{Kind: embedding.Fourier, Weight: 1.5, Count: 20, Spread: 0.8, Seed: 1},
	{Kind: embedding.Fourier, Weight: 0.7, Count: 12, Spread: 3, Seed: 2},
}

// randomRecord is one that an encoder can make: corners of numbers are likely.
func randomRecord(e *encode.Encoder, rng *rand.Rand) []float32 {
	x := make([]float32, e.Width())
	for _, h := range e.Heads() {
		switch h.Kind {
		case encode.HeadCategory:
			x[h.Offset+rng.IntN(h.Width)] = 1
		case encode.HeadBinary:
			x[h.Offset] = float32(rng.IntN(2))
		case encode.HeadMissing:
			if rng.IntN(3) == 0 {
				x[h.Offset], x[h.Offset-1] = 1, 0.5
			}
		default:
			x[h.Offset] = float32(min(1, max(0, 1.4*rng.Float64()-0.2)))
		}
	}
	return x
}

func norm(t testing.TB, f *embedding.Features, x []float32) float64 {
	var squares float64
	f.Each(x, 1, func(_ int, at []int32, values []float32) {
		seen := map[int32]bool{}
		for j, v := range values {
			if at[j] < 0 || int(at[j]) >= f.Count() || seen[at[j]] {
				t.Fatalf("number %d of %d is listed twice, or beyond them", at[j], f.Count())
			}
			seen[at[j]] = true
			squares += float64(v) * float64(v)
		}
	})
	return math.Sqrt(squares)
}

// No record has a longer vector than Norm says, neither an encoded one nor any other,
// and records at knots come near it.
func TestNorm(t *testing.T) {
	e := encoder(t, mixed)
	f, err := embedding.New(e, 3, everything)
	testkit.Must(t, err)
	if want := math.Sqrt(0.25 + 1 + 4 + 1.5*1.5 + 0.49); math.Abs(f.Norm()-want) > 1e-12 {
		t.Errorf("norm %v, want %v", f.Norm(), want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	longest := 0.0
	check := func(x []float32) {
		n := norm(t, f, x)
		longest = max(longest, n)
		if n > f.Norm()*(1+1e-6) {
			t.Fatalf("a vector of norm %v, want at most %v, of %v", n, f.Norm(), x)
		}
	}
	for range 3000 {
		check(randomRecord(e, rng))
		// Input that no encoder makes.
		x := make([]float32, e.Width())
		for j := range x {
			x[j] = float32(3*rng.Float64() - 1)
		}
		check(x)
	}
	for _, v := range []float32{0, 0.5, 1, -1e30, 1e30, float32(math.NaN()), float32(math.Inf(1))} {
		x := make([]float32, e.Width())
		for j := range x {
			x[j] = v
		}
		check(x)
	}
	if longest < 0.999*f.Norm() {
		t.Errorf("the longest vector has norm %v, want close to %v", longest, f.Norm())
	}
}

// Slope is the derivative by numbers, and of choices the loss of choosing them.
func TestSlope(t *testing.T) {
	e := encoder(t, mixed)
	f, err := embedding.New(e, 3, everything)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(2, 2))
	weights := make([]float32, 3*f.Count())
	for j := range weights {
		weights[j] = float32(rng.NormFloat64())
	}
	var at struct{ class int }
	value := func(x []float32) (sum float64) {
		f.Each(x, 1, func(_ int, places []int32, values []float32) {
			for j, p := range places {
				sum += float64(values[j]) * float64(weights[at.class*f.Count()+int(p)])
			}
		})
		return sum
	}
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02+0.005*math.Abs(want) {
			t.Fatalf("%s: slope %v, want %v", what, got, want)
		}
	}
	for range 50 {
		x := randomRecord(e, rng)
		at.class = rng.IntN(3)
		dx := make([]float32, len(x))
		f.Slope(dx, weights, x, []int{at.class})
		with := func(change func(x []float32)) float64 {
			y := append([]float32(nil), x...)
			change(y)
			return value(y)
		}
		heads := e.Heads()
		for i, h := range heads {
			o := h.Offset
			empty := i+1 < len(heads) && heads[i+1].Kind == encode.HeadMissing && x[o+1] == 1
			switch {
			case h.Kind == encode.HeadCategory:
				first := with(func(x []float32) { clear(x[o : o+h.Width]); x[o] = 1 })
				for k := range h.Width {
					this := with(func(x []float32) { clear(x[o : o+h.Width]); x[o+k] = 1 })
					same("category", float64(dx[o+k]-dx[o]), this-first)
				}
			case empty:
				same("empty", float64(dx[o]), 0)
			case h.Kind == encode.HeadBinary:
				same("binary", float64(dx[o]), with(func(x []float32) {
					x[o] = 1
				})-with(func(x []float32) { x[o] = 0 }))
			case h.Kind == encode.HeadMissing:
				if heads[i-1].Kind == encode.HeadBinary && x[o] == 1 {
					continue // a mean of the two, below
				}
				same("flag", float64(dx[o]), with(func(x []float32) { x[o] = 1 })-with(func(x []float32) { x[o] = 0 }))
			default:
				if x[o] < 0.01 || x[o] > 0.99 || x[o] == 0.5 ||
					math.Abs(float64(4*x[o])-math.Round(float64(4*x[o]))) < 0.01 {
					continue
				}
				const step = 1e-3
				up, down := with(func(x []float32) { x[o] += step }), with(func(x []float32) { x[o] -= step })
				before, after := (value(x)-down)/step, (up-value(x))/step
				if math.Abs(before-after) > 0.2 {
					continue // a knot is near
				}
				same("number", float64(dx[o]), (up-down)/(2*step))
			}
		}
	}
}

// An empty cell's number does not count, but for the flag's slope.
func TestEmpty(t *testing.T) {
	e := encoder(t, mixed)
	f, err := embedding.New(e, 1, everything)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(3, 3))
	x := randomRecord(e, rng)
	x[1], x[2] = 0.5, 1
	y := append([]float32(nil), x...)
	y[1] = 0.93
	a, b := make([]float64, f.Count()), make([]float64, f.Count())
	f.Sum(a, x, []int{0})
	f.Sum(b, y, []int{0})
	for j := range a {
		if a[j] != b[j] {
			t.Fatalf("number %d: %v, with another number in the empty cell %v", j, a[j], b[j])
		}
	}
	weights := make([]float32, f.Count())
	for j := range weights {
		weights[j] = float32(rng.NormFloat64())
	}
	dx := make([]float32, len(x))
	f.Slope(dx, weights, y, []int{0})
	z := append([]float32(nil), y...)
	z[2] = 0
	c := make([]float64, f.Count())
	f.Sum(c, z, []int{0})
	var want float64
	for j := range a {
		want += float64(weights[j]) * (a[j] - c[j])
	}
	if math.Abs(float64(dx[2])-want) > 0.01 {
		t.Errorf("the flag's slope is %v, want %v, what emptying the number changes", dx[2], want)
	}
}

// Sum is the sum of Each, by class.
func TestSum(t *testing.T) {
	e := encoder(t, mixed)
	f, err := embedding.New(e, 3, everything)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(4, 4))
	var x []float32
	var classes []int
	for range 700 {
		x, classes = append(x, randomRecord(e, rng)...), append(classes, rng.IntN(3))
	}
	sum, want := make([]float64, 3*f.Count()), make([]float64, 3*f.Count())
	f.Sum(sum, x, classes)
	next := 0
	f.Each(x, len(classes), func(i int, at []int32, values []float32) {
		if i != next {
			t.Fatalf("record %d, want %d", i, next)
		}
		next++
		for j, p := range at {
			want[classes[i]*f.Count()+int(p)] += float64(values[j])
		}
	})
	for j := range sum {
		if math.Abs(sum[j]-want[j]) > 1e-9 {
			t.Fatalf("number %d of the sum is %v, want %v", j, sum[j], want[j])
		}
	}
	if next != len(classes) {
		t.Errorf("%d records, want %d", next, len(classes))
	}
}

func TestOneColumn(t *testing.T) {
	e := encoder(t, "name: one\ncolumns: [{name: a, kind: continuous, lower: 0, upper: 1}]\n")
	f, err := embedding.New(e, 1, everything)
	testkit.Must(t, err)
	if want := 1 + 7 + 2*20 + 2*12; f.Count() != want {
		t.Errorf("%d numbers, want %d", f.Count(), want)
	}
	if _, err := embedding.New(e, 1, everything[2:3]); err == nil {
		t.Error("pairs of one column are taken")
	}
}

func TestRefused(t *testing.T) {
	e := encoder(t, mixed)
	for name, c := range map[string]struct {
		classes int
		part    embedding.Part
		says    string
	}{
		"no classes":      {0, embedding.Part{Kind: embedding.Ones, Weight: 1}, "classes"},
		"too many":        {1 << 18, embedding.Part{Kind: embedding.Ones, Weight: 1}, "classes"},
		"kind":            {1, embedding.Part{Kind: "triples", Weight: 1}, "unknown kind"},
		"weight":          {1, embedding.Part{Kind: embedding.Ones}, "weight"},
		"negative weight": {1, embedding.Part{Kind: embedding.Ones, Weight: -1}, "weight"},
		"weight NaN":      {1, embedding.Part{Kind: embedding.Ones, Weight: math.NaN()}, "weight"},
		"bins":            {1, embedding.Part{Kind: embedding.Columns, Weight: 1, Bins: 1}, "bins"},
		"bins of pairs":   {1, embedding.Part{Kind: embedding.Pairs, Weight: 1, Bins: 1 << 20}, "bins"},
		"count":           {1, embedding.Part{Kind: embedding.Pairs, Weight: 1, Bins: 3, Count: -1}, "count"},
		"no waves":        {1, embedding.Part{Kind: embedding.Fourier, Weight: 1, Spread: 1}, "waves"},
		"spread":          {1, embedding.Part{Kind: embedding.Fourier, Weight: 1, Count: 1}, "spread"},
		"spread NaN": {1, embedding.Part{Kind: embedding.Fourier, Weight: 1, Count: 1, Spread: math.NaN()},
			"spread"},
		"large columns": {1000, embedding.Part{Kind: embedding.Columns, Weight: 1, Bins: 500}, "use fewer"},
		"large pairs":   {3, embedding.Part{Kind: embedding.Pairs, Weight: 1, Bins: 400}, "use fewer"},
		"no patches":    {1, embedding.Part{Kind: embedding.Patches, Weight: 1, Spread: 1}, "waves"},
		"large waves": {3, embedding.Part{Kind: embedding.Fourier, Weight: 1, Count: 30_000, Spread: 1},
			"use fewer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := embedding.New(e, c.classes, []embedding.Part{c.part})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an error about %s", err, c.says)
			}
		})
	}
	if _, err := embedding.New(e, 1, nil); err == nil {
		t.Error("no parts are taken")
	}
}

// Pairs of very many columns are refused before they are listed.
func TestPairsOfTooManyColumns(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: wide\ncolumns:\n")
	for i := range 2049 {
		fmt.Fprintf(&b, "  - {name: c%d, kind: binary}\n", i)
	}
	s := partitiontest.Schema(t, b.String())
	if _, err := embedding.New(encode.New(s), 1,
		[]embedding.Part{{Kind: embedding.Pairs, Weight: 1, Bins: 2, Count: 1}}); err == nil ||
		!strings.Contains(err.Error(), "leave pairs out") {
		t.Errorf("error %v", err)
	}
}

// A choice of one value says nothing, wherever it stands, and disturbs no other column.
func TestChoicesOfOneValue(t *testing.T) {
	const with = "name: one\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: g, kind: " +
		"categorical, categories: [only]}\n" +
		"  - {name: b, kind: binary}\n  - {name: h, kind: categorical, categories: [only], nullable: true}\n  - " +
		"{name: i, kind: categorical, categories: [only]}\n"
	s := partitiontest.Schema(t, with)
	e := encode.New(s)
	f, err := embedding.New(e, 1, []embedding.Part{
		{Kind: embedding.Ones, Weight: 1}, {Kind: embedding.Columns, Weight: 1, Bins: 4},
		{Kind: embedding.Pairs, Weight: 1, Bins: 3}, {Kind: embedding.Fourier, Weight: 1, Count: 9, Spread: 1},
	})
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	x := make([]float32, 50*e.Width())
	for i := range x {
		x[i] = float32(rng.IntN(2))
	}
	f.Each(x, 50, func(i int, _ []int32, values []float32) {
		var squares float64
		for _, v := range values {
			squares += float64(v) * float64(v)
		}
		if math.Sqrt(squares) > f.Norm()*(1+1e-6) {
			t.Errorf("record %d has norm %v, the bound is %v", i, math.Sqrt(squares), f.Norm())
		}
	})
	// The slope of a depends on the same record's numbers, which no neighbour changes.
	dx, weights := make([]float32, len(x)), make([]float32, f.Count())
	for i := range weights {
		weights[i] = float32(rng.NormFloat64())
	}
	value := func(row []float32) (sum float64) {
		at := make([]float64, f.Count())
		f.Sum(at, row, []int{0})
		for j, v := range at {
			sum += v * float64(weights[j])
		}
		return sum
	}
	for i := range x {
		if i%e.Width() == 0 {
			x[i] = 0.3 + 0.1*rng.Float32() // a, between two knots
		}
	}
	f.Slope(dx, weights, x, make([]int, 50))
	const h = 1e-3
	for i := range 50 {
		row := append([]float32(nil), x[i*e.Width():(i+1)*e.Width()]...)
		row[0] += h
		above := value(row)
		row[0] -= 2 * h
		if want := (above - value(row)) / (2 * h); math.Abs(float64(dx[i*e.Width()])-want) > 0.01+0.01*math.Abs(want) {
			t.Errorf("record %d: slope %v, differences say %v", i, dx[i*e.Width()], want)
		}
	}
}
