package certificate

import (
	"bytes"
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A certificate states the planned number of teachers, and the smallest number that took part if that differs.
func TestTheLeastNumberOfTeachersIsStated(t *testing.T) {
	raw, _, _ := example(t)
	verified, err := ledger.Verify(bytes.NewReader(raw))
	testkit.Must(t, err)
	for least, want := range map[int]int{0: 0, 120: 120, 199: 199, 200: 0} {
		f := facts()
		f.TeachersLeast = least
		c, err := New(f, verified)
		if err != nil || c.Teachers != 200 || c.TeachersLeast != want {
			t.Errorf("%d of 200: certificate says %d of %d (%v), want %d", least, c.TeachersLeast, c.Teachers, err,
				want)
		}
	}
	for _, least := range []int{-1, 201} {
		f := facts()
		f.TeachersLeast = least
		if _, err := New(f, verified); !errors.Is(err, ErrCertificate) {
			t.Errorf("%d of 200: error %v", least, err)
		}
	}
}
