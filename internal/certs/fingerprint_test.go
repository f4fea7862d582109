package certs

import (
	"strings"
	"testing"
)

// A refusal says how many digits are wanted: a part of a key's fingerprint, or all of a roster's.
func TestHowManyDigitsOfAFingerprint(t *testing.T) {
	fingerprint := strings.Repeat("0a", 20)
	for _, told := range []string{SpellFingerprint(fingerprint), strings.ToUpper(fingerprint)} {
		if err := CheckFingerprint(told, fingerprint, len(fingerprint)); err != nil {
			t.Error(err)
		}
	}
	for least, want := range map[int]string{40: "all its 40 hex digits", 32: "at least the first 32 of its 40"} {
		for _, told := range []string{"0a", strings.Repeat("0a", 32), strings.Repeat("xy", 20)} {
			if err := CheckFingerprint(told, fingerprint, least); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", told, err, want)
			}
		}
	}
}
