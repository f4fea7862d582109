package runspec

import (
	"strings"
	"testing"
)

func TestPurposeIsALineOfText(t *testing.T) {
	for _, good := range []string{"", "Survival of patients, study 12/7: σ ≤ 3 (für Ärzte)",
		strings.Repeat("ä", MaxPurpose)} {
		if err := CheckPurpose(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for name, bad := range map[string]string{
		"too long": strings.Repeat("ä", MaxPurpose+1), "two lines": "a\nb", "a tab": "a\tb", "an escape": "\x1b[2J",
		"no UTF-8": "a\xffb", "written backwards": "a\u202eb", "of no width": "a\u200bb",
	} {
		if err := CheckPurpose(bad); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
