package ensemble

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// What training computes does not depend on the real records: whether a model has any of a class,
// fewer than a batch or many. Only what it learns does.
func TestWorkDoesNotDependOnRecords(t *testing.T) {
	const models, features, batch, steps = 3, 5, 8, 4
	real, generated, classes := toy(models, features, rand.New(rand.NewPCG(1, 1)))
	with := func(rows ...int) []Examples { // of class 0 and 1 of the first model
		all := slices.Clone(real)
		all[0].ByClass = []([]float32){real[0].ByClass[0][:rows[0]*features], real[0].ByClass[1][:rows[1]*features]}
		return all
	}
	for _, fresh := range []bool{false, true} {
		spec := critics(models, features, 2, 4)
		spec.Fresh = fresh
		var want Work
		var untrained []float32
		for i, examples := range [][]Examples{with(16, 16), with(16, 0), with(0, 0), with(1, 7), with(batch, batch+1)} {
			e := testkit.Value(New(spec))
			before := slices.Clone(e.w)
			visit := func(model int, dx []float32) {
				if model == 0 && i == 2 {
					untrained = slices.Clone(dx)
				}
			}
			if !fresh {
				testkit.Must(t, e.Train(examples, generated, classes, steps, batch))
			}
			testkit.Must(t, e.TrainGradients(examples, generated, classes, steps, batch, generated, classes, nil,
				visit))
			if i == 0 {
				want = e.Work()
			}
			if got := e.Work(); got != want || got.Steps < models*2*steps || got.Records < got.Steps*batch {
				t.Errorf("fresh %v, case %d: %+v, and %+v of a model with all records", fresh, i, got, want)
			}
			if i != 2 {
				continue
			}
			if !fresh && !slices.Equal(e.w[:2*e.size], before[:2*e.size]) {
				t.Error("a model without records has learned")
			}
			none := testkit.Value(New(critics(models, features, 2, 4)))
			var unasked []float32
			if fresh {
				copy(none.w, slices.Repeat(e.w, 2))
			}
			testkit.Must(t, none.InputGradients(generated, classes, nil, func(model int, dx []float32) {
				if model == 0 {
					unasked = slices.Clone(dx)
				}
			}))
			if !slices.Equal(untrained, unasked) {
				t.Errorf("fresh %v: gradients of a model without records are not those of an untrained one", fresh)
			}
		}
	}
}

// Records that fill a batch change nothing that is learned.
func TestFillingTeachesNothing(t *testing.T) {
	const features, rows = 5, 6
	real, generated, _ := toy(1, features, rand.New(rand.NewPCG(2, 1)))
	own := real[0].ByClass[0][:rows*features]
	e := testkit.Value(New(critics(1, features, 1, 4)))
	w := e.params(e.w, 0, 0)
	for i := range w {
		w[i] = float32(i%7)/7 - 0.4
	}
	s := e.trainers[0]
	s.Take(w)
	gradient := func(filling []float32) []float32 {
		clear(s.Grad)
		s.accumulate(own, filling, 64, nil, true)
		return slices.Clone(s.Grad)
	}
	want, moved := gradient(nil), false
	for i, v := range gradient(generated) {
		if d := v - want[i]; d > 1e-6 || d < -1e-6 {
			t.Errorf("the gradient by weight %d is %v, and %v without filling", i, v, want[i])
		}
		moved = moved || v != 0
	}
	if !moved {
		t.Error("no gradient at all")
	}
}
