package progress

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vbauerster/mpb/v8"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Where there is no terminal there are a first line and a last one; a bar ends where the file does, or before.
func TestBytesThatCome(t *testing.T) {
	var plain bytes.Buffer
	b := &Bytes{out: &plain, all: 3 << 20}
	for range 3 {
		testkit.Value(b.Write(make([]byte, 1<<20)))
	}
	b.Close()
	if plain.String() != "1.0 of 3.0 MiB\n3.0 of 3.0 MiB\n" {
		t.Errorf("%q", plain.String())
	}
	for _, came := range []int{2 << 20, 3 << 20} {
		var drawn bytes.Buffer
		bar := newBytesBar(&drawn, 3<<20, mpb.WithAutoRefresh())
		testkit.Value(bar.Write(make([]byte, came)))
		bar.Close()
		if came == 3<<20 && !strings.Contains(drawn.String(), "3.0 MiB / 3.0 MiB") {
			t.Errorf("the bar is %q", drawn.String())
		}
	}
	var none *Bytes
	none.Close()
}
