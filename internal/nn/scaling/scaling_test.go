package scaling

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestStandardUnits(t *testing.T) {
	// Class 0: column 0 has mean 0.4 and spread 0.1, column 1 is always 1.
	x := []float32{0.3, 1, 0.5, 1, 0.9, 0}
	s, err := New(x, []int{0, 0, 1}, 2, 3, []int{0})
	testkit.Must(t, err)
	if s.Width() != 3 {
		t.Fatalf("width %d, want 3", s.Width())
	}
	for _, c := range []struct {
		name  string
		class int
		x     []float32
		want  []float64
	}{
		{"a spread above the mean", 0, []float32{0.5, 1}, []float64{1, 0, 0}},
		{"a constant column", 0, []float32{0.4, 0}, []float64{0, -1 / minFlagSpread, -1 / math.Sqrt2}},
		{"a constant number, out of reach", 1, []float32{0.5, 0}, []float64{-reach, 0, (reach*reach - 1) / math.Sqrt2}},
		{"a class without reference", 2, []float32{0.75, 0.5}, []float64{0.25 * math.Sqrt(12), 0, -0.25 / math.Sqrt2}},
	} {
		got := make([]float32, 3)
		s.Apply(got, c.x, c.class)
		for j := range got {
			if math.Abs(float64(got[j])-c.want[j]) > 1e-5 {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
	all := s.All(x, []int{0, 0, 1})
	if len(all) != 9 || math.Abs(float64(all[0])+1) > 1e-5 || math.Abs(float64(all[3])-1) > 1e-5 {
		t.Errorf("all records: %v", all)
	}
}

func TestNewStandardRefuses(t *testing.T) {
	for name, f := range map[string]func() (*Scaler, error){
		"ragged records": func() (*Scaler, error) { return New(make([]float32, 5), []int{0, 0}, 2, 1, nil) },
		"foreign class":  func() (*Scaler, error) { return New(make([]float32, 4), []int{0, 1}, 2, 1, nil) },
		"foreign column": func() (*Scaler, error) { return New(make([]float32, 4), []int{0, 0}, 2, 1, []int{2}) },
		"no features":    func() (*Scaler, error) { return New(nil, nil, 0, 1, nil) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A step in units of the reference is one of as many spreads of the column, and the
// slope of a square is that of what Apply writes.
func TestStandardChangeAndSlope(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	const width, n = 3, 40
	x, classes := make([]float32, n*width), make([]int, n)
	for i := range x {
		x[i] = rng.Float32()
	}
	for i := range classes {
		classes[i] = i % 2
	}
	s, err := New(x, classes, width, 2, []int{0, 2})
	testkit.Must(t, err)
	at, moved := make([]float32, s.Width()), make([]float32, s.Width())
	for class := range 2 {
		record, step, change := []float32{0.5, 0.4, 0.6}, []float32{0.25, -0.5, 0.125}, make([]float32, width)
		s.Change(change, step, class)
		s.Apply(at, record, class)
		for j := range record {
			record[j] += change[j]
		}
		s.Apply(moved, record, class)
		for j, want := range step {
			if got := float64(moved[j] - at[j]); math.Abs(got-float64(want)) > 1e-5 {
				t.Errorf("class %d, column %d moved by %v, want %v", class, j, got, want)
			}
		}
		for k, j := range []int{0, 2} {
			middle := (at[j] + moved[j]) / 2 // where a parabola has the slope of its chord
			chord := float64(moved[width+k]-at[width+k]) / float64(moved[j]-at[j])
			if got := float64(SquareSlope(middle)); math.Abs(got-chord) > 1e-4 {
				t.Errorf("class %d, column %d: slope %v, want %v", class, j, got, chord)
			}
		}
	}
}
