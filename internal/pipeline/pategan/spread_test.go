package pategan

import "testing"

// The widened queries reach regions that a generator of a single record does not, and stay records: one
// category each, and an empty number behind its flag.
func TestSpreadMakesRecords(t *testing.T) {
	tr := testTrainer(t, smallOptions(), 1)
	w := tr.Learner.Generator.Width()
	const n = 2000
	x := make([]float32, n*w)
	for i := range n {
		copy(x[i*w:], []float32{0.2, 0.5, 1, 1, 0, 0, 0})
	}
	tr.spread(x)
	changed, empty := 0, 0
	for i := range n {
		r := x[i*w : (i+1)*w]
		if r[0] != 0.2 {
			changed++
		}
		if r[3]+r[4]+r[5] != 1 {
			t.Fatalf("record %v has not one category", r)
		}
		if r[2] == 1 {
			empty++
			if r[1] != 0.5 {
				t.Fatalf("record %v has an empty number that is not %v", r, 0.5)
			}
		}
	}
	// Half the records are widened, each column of them with chance 1/2: 500
	// expected; 6 standard deviations are 116.
	if changed < 384 || changed > 616 {
		t.Errorf("column a was widened in %d of %d records, want about 500", changed, n)
	}
	if empty == n || empty == 0 {
		t.Errorf("%d of %d records have an empty number", empty, n)
	}
}
