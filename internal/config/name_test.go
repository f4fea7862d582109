package config

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "7", "north", "north-1.a", strings.Repeat("a", 64)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "-a", "a-", "a/b", "A", "a_b", "a b", "a\n", "ä",
		strings.Repeat("a", 65)} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), "letter or digit at both ends") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
