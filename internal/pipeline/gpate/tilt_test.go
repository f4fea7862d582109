package gpate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A field that is linear and quadratic in standard columns is recovered from noisy steps of its slope at the
// records, per class, and its log-ratio has that gradient.
func TestFitFieldFindsTheField(t *testing.T) {
	o := smallOptions()
	o.Records, o.Teacher.Training, o.Student.Step, o.Student.StepEnd = 4000, 2000, 0.5, 0.5
	tr := mustNew(t, o, studenttest.Table(t), 1)
	const w = 7
	rng := rand.New(rand.NewPCG(3, 8))
	records := func(n int, shift float32) (x []float32, classes []int) {
		classes = pipeline.Balanced(n, 2)
		for _, c := range classes {
			r := studenttest.TableRecord(rng, c)
			r[0] += shift
			r[1], r[2] = rng.Float32(), float32(rng.IntN(2))
			x = append(x, r...)
		}
		return x, classes
	}
	q := &pipeline.TeacherQuestion{Width: w}
	q.Training, q.TrainingClasses = records(o.Teacher.Training, 0)
	q.Records, q.Classes = records(o.Records, 0.08)
	at := [2][w]float64{{0.8, -0.4, 0, 0.3, 0, -0.2, 0.5}, {-0.6, 0, 0.2, 0, 0.1, 0, 0}}
	slope := [2][w]float64{{-0.7, 0.5}, {0.6, -1}} // of the numbers
	first, err := tr.fitField(q, &released{steps: make([]float32, len(q.Records))})
	testkit.Must(t, err)
	if slices.Max(first.at) != 0 || slices.Min(first.slope) != 0 {
		t.Errorf("no steps give a field %v, %v", first.at, first.slope)
	}
	z, zw := first.units.All(q.Records, q.Classes), first.units.Width()
	steps := make([]float32, len(q.Records))
	for i, c := range q.Classes {
		for j := range w {
			steps[i*w+j] = float32(at[c][j] + slope[c][j]*float64(z[i*zw+j]) + 0.5*rng.NormFloat64())
		}
	}
	f, err := tr.fitField(q, &released{steps: steps})
	testkit.Must(t, err)
	// With 2,000 records and noise of 0.5, a mean errs by 0.011 and a slope by little more. Half of that is
	// followed: six standard deviations are 0.04.
	for c := range 2 {
		for j := range w {
			wantSlope := min(widest, 0.5*slope[c][j])
			var mean, n float64
			for i, class := range q.Classes {
				if class == c {
					mean, n = mean+float64(z[i*zw+j]), n+1
				}
			}
			// The mean of the steps contains what the slope does not explain.
			wantAt := 0.5*(at[c][j]+slope[c][j]*mean/n) - wantSlope*mean/n
			if math.Abs(f.slope[c*w+j]-wantSlope) > 0.05 || math.Abs(f.at[c*w+j]-wantAt) > 0.05 {
				t.Errorf("class %d, column %d: %v + %v z, want %v + %v z", c, j, f.at[c*w+j], f.slope[c*w+j], wantAt,
					wantSlope)
			}
		}
	}
	// The log-ratio's derivative by a column.
	x, classes := q.Records[:w], q.Classes[:1]
	up, down := slices.Clone(x), slices.Clone(x)
	const h = 1. / 64
	up[0], down[0] = up[0]+h, down[0]-h
	a, b := f.of(up, classes)[0], f.of(down, classes)[0]
	za, zb := f.units.All(up, classes)[0], f.units.All(down, classes)[0]
	want := f.at[0] + f.slope[0]*float64(za+zb)/2
	if got := float64(a-b) / float64(za-zb); math.Abs(got-want) > 1e-3 {
		t.Errorf("the log-ratio has slope %v, want %v", got, want)
	}
}

// A round may narrow a column much and widen it little. A class without records stays.
func TestFitFieldIsBounded(t *testing.T) {
	o := smallOptions()
	tr, q := asked(t, o, studenttest.Table(t))
	for i := range q.Classes {
		q.Classes[i] = 1
	}
	steps := make([]float32, len(q.Records))
	first, err := tr.fitField(q, &released{steps: steps})
	testkit.Must(t, err)
	z, zw := first.units.All(q.Records, q.Classes), first.units.Width()
	for i := range q.Classes {
		steps[i*q.Width], steps[i*q.Width+1] = 1e4*z[i*zw], -1e4*z[i*zw+1]
	}
	f, err := tr.fitField(q, &released{steps: steps})
	testkit.Must(t, err)
	if f.slope[q.Width] != widest || f.slope[q.Width+1] != -2 {
		t.Errorf("slopes %v, want %v and -2", f.slope[q.Width:q.Width+2], widest)
	}
	if slices.Max(f.at[:q.Width]) != 0 || slices.Min(f.at[:q.Width]) != 0 {
		t.Errorf("class 0 has a field %v", f.at[:q.Width])
	}
}

// An estimate that noise alone explains becomes 0; a larger one is reduced by its noise.
func TestTrust(t *testing.T) {
	for _, c := range []struct{ estimate, variance, want float64 }{
		{0.5, 0, 1}, {0, 0.1, 0}, {-0.2, 0.04, 0}, {1, 0.25, 0.75}, {-2, 1, 0.75},
	} {
		if got := trust(c.estimate, c.variance); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v with variance %v: %v, want %v", c.estimate, c.variance, got, c.want)
		}
	}
}

// Fields of pure noise are small: at most 0.6 of the coefficients move, and by less than the noise would. A
// normal estimate exceeds its deviation with probability 0.317; of 32 coefficients 20 or more do so with a
// chance below 1e-3, and the seed is fixed.
func TestFieldsOfNoiseAreSmall(t *testing.T) {
	tr, q := asked(t, smallOptions(), studenttest.Table(t))
	rng := rand.New(rand.NewPCG(3, 3))
	r := &released{steps: make([]float32, len(q.Records)), noise: 2}
	for i := range r.steps {
		r.steps[i] = float32(2 * rng.NormFloat64())
	}
	f, err := tr.fitField(q, r)
	testkit.Must(t, err)
	r.noise = 0
	bare, err := tr.fitField(q, r)
	testkit.Must(t, err)
	var small, large float64
	for i := range f.at {
		small, large = small+f.at[i]*f.at[i], large+bare.at[i]*bare.at[i]
	}
	if !(small < 0.6*large) {
		t.Errorf("the field's squares are %v, without doubts about the noise %v", small, large)
	}
}
