package text

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Foreign text moves no cursor, hides nothing and, with Line, starts no line.
func TestPlain(t *testing.T) {
	for s, want := range map[string]string{
		"as it is: ä, 数\tand\n": "as it is: ä, 数\tand\n", "a\x1b[8mb\x7f\r\u009b2J": "a [8mb   2J", "a\u202eb": "a b",
	} {
		testkit.Same(t, s, want, Plain(s))
		var b bytes.Buffer
		n, err := fmt.Fprint(PlainWriter(&b), s)
		testkit.Must(t, err)
		testkit.Same(t, "bytes written", len(s), n)
		testkit.Same(t, "written", want, b.String())
	}
	testkit.Same(t, "a line", "a [8m b c d", Line("a\x1b[8m\nb\tc\u2028d"))
}

// A file's name cannot overwrite a line that reports a failure.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"synthetic.csv: 50 rows": "synthetic.csv: 50 rows",
		"x\x1b[2K\r\ny":          "x\ufffd[2K\ufffd\ufffdy", "a\u202eb": "a\ufffdb",
	} {
		testkit.Same(t, in, want, Visible(in))
	}
}
