package runspec

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for text, want := range map[string]bool{
		"r": true, "R1_a.b-c": true, strings.Repeat("x", LongestName): true,
		"": false, ".r": false, "-r": false, "_r": false, "a/b": false, "a b": false, "r\n": false, "é": false,
		strings.Repeat("x", LongestName+1): false,
	} {
		if IsName(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
