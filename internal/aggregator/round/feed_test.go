package round

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Pages contain all lines in order. No page exceeds the byte limit, unless a single line does.
func TestPagesOfALedgerAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 40), 1, 30).Draw(t, "lines")
		most := rapid.IntRange(1, 100).Draw(t, "most")
		for left := lines; len(left) > 0; {
			page := firstOf(left, most)
			size := len(bytes.Join(page, nil))
			if len(page) == 0 || len(page) > 1 && size > most {
				t.Fatalf("%d lines of %d bytes in a page of %d", len(page), size, most)
			}
			if len(page) < len(left) && size+len(left[len(page)]) <= most {
				t.Fatalf("a page of %d bytes leaves out one of %d", size, len(left[len(page)]))
			}
			left = left[len(page):]
		}
	})
}
