package masking

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A fingerprint is taken as people spell it, and a group reads back as it was written.
func TestGroupsAreWrittenWithFingerprints(t *testing.T) {
	g := newRun(t, 3, 3, 1).group
	raw := testkit.Value(json.Marshal(g))
	var back Group
	testkit.Must(t, json.Unmarshal(raw, &back))
	if again := testkit.Value(json.Marshal(back)); string(again) != string(raw) || back.Validate() != nil {
		t.Fatalf("%s read back as %s", raw, again)
	}
	key := g.Members[1].Key
	for _, text := range []string{key.Hex(), strings.ToUpper(key.Hex()), certs.SpellFingerprint(key.Hex())} {
		if f, err := ParseFingerprint(text); err != nil || f != key {
			t.Errorf("%q is read as %x, %v", text, f, err)
		}
	}
	for _, text := range []string{"", key.Hex()[1:], key.Hex() + "00", "north"} {
		if _, err := ParseFingerprint(text); err == nil || !strings.Contains(err.Error(), "not a SHA-256 in hex") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
