package proving

import "testing"

func TestWordsOfFilesDoNotMoveTheCursor(t *testing.T) {
	for in, want := range map[string]string{
		"synthetic.csv: 50 rows": "synthetic.csv: 50 rows",
		"x\x1b[2K\r\ny":          "x\ufffd[2K\ufffd\ufffdy", "a\u202eb": "a\ufffdb",
	} {
		if got := visible(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
