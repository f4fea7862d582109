package roundtest

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// FitWidth is the number of features in these tests' fits, FitClip the length of their records' features.
const (
	FitWidth = 3
	FitClip  = 2
)

// Records returns n feature vectors around a place, the same for the same seed.
func Records(seed uint64, n int, place float64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0xf17))
	var all []float64
	for range n {
		x := []float64{1, place + rng.NormFloat64()/2, rng.NormFloat64() / 2}
		length := 0.0
		for _, v := range x {
			length = math.Hypot(length, v)
		}
		for _, v := range x { // rounded to float32, and no longer than the clip
			all = append(all, float64(float32(v*math.Min(1, 1.999/length))))
		}
	}
	return all
}

// Wanted is the fit that FitRound asks for.
func Wanted(q *conclavev1.Fit) (*ratio.Wanted, error) {
	width := 0
	if shape := q.GetSynthetic().GetShape(); len(shape) == 2 {
		width = int(shape[1])
	}
	values := make([]float64, len(q.GetSynthetic().GetData())/4)
	for i := range values {
		values[i] = float64(floatAt(q.Synthetic, i))
	}
	return ratio.NewWanted(ratio.Problem{
		Synthetic: values, Width: width, Clip: q.GetFeatures().GetClip(), Lambda: q.Lambda, Records: q.Records,
	})
}

// FitRound asks for a fit of 50 synthetic records against an expected 40 real ones, with a bound on the coefficients
// in a norm.
func FitRound(run string, number uint64, norm question.Norm, change func(*conclavev1.Fit)) *conclavev1.Round {
	synthetic := Tensor(50, FitWidth)
	for i, v := range Records(1, 50, -0.3) {
		PutFloat(synthetic, i, float32(v))
	}
	q := &conclavev1.Fit{
		Features:  &conclavev1.RatioFeatures{Mean: make([]float32, 2), Scale: []float32{1, 1}, Clip: FitClip},
		Synthetic: synthetic, Lambda: 0.1, Records: 40,
	}
	want, err := Wanted(q)
	if err != nil {
		panic(err) // valid before a test changes it
	}
	if change != nil {
		change(q)
		if changed, err := Wanted(q); err == nil {
			want = changed
		}
	}
	r := question.Ask(runspec.Fit, q, logistic.Shape(want, norm))
	r.Run, r.Number = run, number
	return r
}

func PutFloat(t *conclavev1.Tensor, at int, v float32) {
	bits := math.Float32bits(v)
	for i := range 4 {
		t.Data[4*at+i] = byte(bits >> (8 * i))
	}
}

func floatAt(t *conclavev1.Tensor, at int) float32 {
	bits := uint32(0)
	for i := range 4 {
		bits |= uint32(t.Data[4*at+i]) << (8 * i)
	}
	return math.Float32frombits(bits)
}

// BadFits are fits that every run must refuse, by problem.
func BadFits() map[string]Bad[conclavev1.Fit] {
	type bad = Bad[conclavev1.Fit]
	lambda := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Lambda = v } }
	count := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Records = v } }
	clip := func(v float64) func(*conclavev1.Fit) { return func(q *conclavev1.Fit) { q.Features.Clip = v } }
	value := func(at int, v float64) func(*conclavev1.Fit) {
		return func(q *conclavev1.Fit) { PutFloat(q.Synthetic, at, float32(v)) }
	}
	return map[string]bad{
		"no synthetic records": {func(q *conclavev1.Fit) { q.Synthetic = nil },
			"synthetic records have shape [] and 0 bytes"},
		"no rows": {func(q *conclavev1.Fit) { q.Synthetic = Tensor(0, 3) },
			"a fit to 0 synthetic records"},
		"too many features": {func(q *conclavev1.Fit) { q.Synthetic = Tensor(1, MaxFitWidth+1) },
			"401 features; use at least 1 record and at most 400 features"},
		"a flat tensor": {func(q *conclavev1.Fit) { q.Synthetic.Shape = q.Synthetic.Shape[:1] },
			"synthetic records have shape [50] and 600 bytes"},
		"a short tensor": {func(q *conclavev1.Fit) { q.Synthetic.Data = q.Synthetic.Data[4:] },
			"synthetic records have shape [50 3] and 596 bytes"},
		"a NaN": {value(4, math.NaN()),
			"value 4 of the fit's synthetic records is not finite"},
		"an infinity":      {value(0, math.Inf(-1)), "value 0 of the fit's synthetic records is not finite"},
		"a long record":    {value(5, 3), "synthetic record 1 is longer than clip 2"},
		"no features":      {func(q *conclavev1.Fit) { q.Features = nil }, "clip is 0"},
		"clip 0":           {clip(0), "clip is 0"},
		"clip of NaN":      {clip(math.NaN()), "clip is NaN"},
		"infinite clip":    {clip(math.Inf(1)), "clip is +Inf"},
		"lambda 0":         {lambda(0), "lambda is 0"},
		"lambda below 0":   {lambda(-1), "lambda is -1"},
		"lambda of NaN":    {lambda(math.NaN()), "lambda is NaN"},
		"infinite lambda":  {lambda(math.Inf(1)), "lambda is +Inf"},
		"a tiny lambda":    {lambda(1e-12), "use a larger lambda, a smaller clip, or dp-mlp"},
		"a small lambda":   {lambda(4.8e-4), "must be at least 0.00048828125"},
		"no records":       {count(0), "a fit assumes 0 privacy units; use a public number from 1 to 16777216"},
		"half a record":    {count(0.5), "assumes 0.5 privacy units"},
		"records of NaN":   {count(math.NaN()), "assumes NaN privacy units"},
		"too many records": {count(MaxFitted + 1), "privacy units; use a public number from 1 to 16777216"},
	}
}
