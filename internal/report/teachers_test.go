package report

import (
	"strings"
	"testing"
)

// The page states the smallest number of teachers in a round if it was not always all of them.
func TestTheLeastNumberOfTeachersIsStated(t *testing.T) {
	for _, least := range []int{0, 120, 199} {
		p := fullPage(t)
		p.Certificate.TeachersLeast = least
		if got := strings.Contains(write(t, p), "at least 120 of them in each round"); got != (least == 120) {
			t.Errorf("%d of 200: the page says that 120 took part: %v", least, got)
		}
	}
}
