package service

import "testing"

// A student that restarts without its checkpoint asks for all rounds of its run again, but not without end.
func TestStudentsMayRepeatManyRounds(t *testing.T) {
	for _, c := range []struct{ set, want int }{{0, 10_000}, {3, 3}} {
		repeats, n := newStudents(Options{Repeats: c.set}).repeats, 0
		for _, ok := repeats.Take("lab"); ok && n < 2*c.want; _, ok = repeats.Take("lab") {
			n++
		}
		if n < c.want || n >= 2*c.want {
			t.Errorf("%d rounds may be repeated at once, want %d", n, c.want)
		}
	}
}
