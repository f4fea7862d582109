package nn

import (
	"math"
	"testing"
)

func TestStandardUnits(t *testing.T) {
	// Class 0: column 0 has mean 0.4 and spread 0.1, column 1 is always 1.
	x := []float32{0.3, 1, 0.5, 1, 0.9, 0}
	s, err := NewStandard(x, []int{0, 0, 1}, 2, 3, []int{0})
	if err != nil {
		t.Fatal(err)
	}
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
	for name, f := range map[string]func() (*Standard, error){
		"ragged records": func() (*Standard, error) { return NewStandard(make([]float32, 5), []int{0, 0}, 2, 1, nil) },
		"foreign class":  func() (*Standard, error) { return NewStandard(make([]float32, 4), []int{0, 1}, 2, 1, nil) },
		"foreign column": func() (*Standard, error) { return NewStandard(make([]float32, 4), []int{0, 0}, 2, 1, []int{2}) },
		"no features":    func() (*Standard, error) { return NewStandard(nil, nil, 0, 1, nil) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
