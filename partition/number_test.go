package partition

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// The fast path equals strconv for everything that it accepts.
func TestShortDecimalsAreThoseOfStrconv(t *testing.T) {
	taken := 0
	same := func(t rapid.TB, text string) {
		got, ok := shortDecimal(text)
		if !ok {
			return
		}
		taken++
		want, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%q is read as %v, by strconv as %v (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"0", "-0", "+0.0", ".5", "5.", "0.1", "999999999999999", "0.00000000000001",
		"-123456.789012345", "000000000000001", "12345678901234.5"} {
		same(t, text)
	}
	if taken != 11 {
		t.Errorf("%d of 11 short numbers are read the short way", taken)
	}
	for _, text := range []string{"", "-", ".", "+.", "1e3", "1.2.3", "0x1", "1_0", "--1", "1234567890123456", " 1"} {
		if v, ok := shortDecimal(text); ok {
			t.Errorf("%q is read as %v", text, v)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		same(t, rapid.StringMatching(`[-+]?[0-9]{0,9}\.?[0-9]{0,9}`).Draw(t, "number"))
		same(t, rapid.StringMatching(`[-+.0-9eE]{0,18}`).Draw(t, "text"))
		same(t, strconv.FormatFloat(rapid.Float64Range(-1e6, 1e6).Draw(t, "v"), 'f',
			rapid.IntRange(0, 10).Draw(t, "decimals"), 64))
	})
}
