package meaning

import (
	"strings"
	"testing"
)

func TestStrength(t *testing.T) {
	for _, c := range []struct {
		g        Guarantee
		strength string
		warns    string // a part of the only warning, empty for none
	}{
		{Guarantee{1, 1e-5, 0}, Strong, ""},
		{Guarantee{1, 1e-5, 50_000}, Strong, ""},
		{Guarantee{1, 1e-5, 200_000}, Weak, "above 1/200000"},
		{Guarantee{1, 0.1, 0}, Weak, "no public number"},
		{Guarantee{1, 1e-4, 0}, Reasonable, "no public number"},
		{Guarantee{1, 1e-4, 5000}, Reasonable, ""},
		{Guarantee{1.01, 1e-6, 0}, Reasonable, ""},
		{Guarantee{10, 1e-6, 0}, Reasonable, ""},
		{Guarantee{10.5, 1e-6, 0}, Weak, "above 10"},
	} {
		if got := c.g.Strength(); got != c.strength {
			t.Errorf("%+v is %s, want %s", c.g, got, c.strength)
		}
		if c.g.Why() == "" {
			t.Errorf("%+v: nothing says why", c.g)
		}
		warnings := c.g.Warnings()
		if c.warns == "" && len(warnings) > 0 || c.warns != "" && (len(warnings) != 1 ||
			!strings.Contains(warnings[0], c.warns)) {
			t.Errorf("%+v: %q, want %q", c.g, warnings, c.warns)
		}
	}
}
