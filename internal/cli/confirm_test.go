package cli

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func TestAnswersThatAreNeitherYesNorNoAreAskedForAgain(t *testing.T) {
	for _, c := range []struct {
		typed string
		yes   bool
		asked int
	}{
		{"yes\n", true, 1}, {"no\nyes\n", false, 1}, {"y\n\n YES\nyes\n", true, 4}, {"y\nno\n", false, 2},
		{"", false, 1}, {"y", false, 1}, {"yes", true, 1},
	} {
		var out bytes.Buffer
		yes := confirm(bufio.NewReader(strings.NewReader(c.typed)), &out, "is it?")
		if asked := strings.Count(out.String(), "is it? yes or no: "); yes != c.yes || asked != c.asked {
			t.Errorf("%q: %v after %d questions, want %v after %d", c.typed, yes, asked, c.yes, c.asked)
		}
	}
}
