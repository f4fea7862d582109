package roster_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/study/roster"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// folder is an authority's folder, with its certificate.
func folder(t testing.TB) (string, *x509.Certificate, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "authority")
	testkit.Must(t, authority.Create(dir))
	ca, fingerprint, err := authority.Own(dir)
	testkit.Must(t, err)
	return dir, ca, fingerprint
}

// admitted is a site with a certificate from an authority.
func admitted(t testing.TB, dir, name string) roster.Site {
	t.Helper()
	q, err := request.New(t.TempDir(), certs.RoleNode, name, nil, request.FirstKey)
	testkit.Must(t, err)
	issued, err := authority.Approve(dir, q, time.Hour)
	testkit.Must(t, err)
	return roster.Site{Name: name, Key: q.Fingerprint, Certificate: string(issued.PEM)}
}

func TestARosterIsSigned(t *testing.T) {
	dir, ca, fingerprint := folder(t)
	r := roster.Roster{Study: "s", Schema: "c", Authority: fingerprint, Dataset: "heart", Generation: 1,
		Sites: []roster.Site{admitted(t, dir, "south"), admitted(t, dir, "north")}}
	signed, err := roster.Sign(dir, r)
	testkit.Must(t, err)
	read, err := signed.Check(ca, time.Now())
	testkit.Must(t, err)
	if read.Sites[0].Name != "north" || read.Keys()["south"] != read.Site("south").Key || read.Site("west") != nil {
		t.Errorf("read %+v", read)
	}
	again, err := roster.Sign(dir, r)
	testkit.Must(t, err)
	if again.Fingerprint() != signed.Fingerprint() || len(signed.Fingerprint()) != roster.FingerprintDigits {
		t.Errorf("fingerprints %s and %s", signed.Fingerprint(), again.Fingerprint())
	}
	if _, err := signed.Check(ca, time.Now().Add(48*time.Hour)); !errors.Is(err, roster.ErrRoster) {
		t.Errorf("after its certificates ended: %v", err)
	}
}

// Rosters that a lying aggregator could make are refused, and so are those of another authority.
func TestATamperedRosterIsRefused(t *testing.T) {
	dir, ca, fingerprint := folder(t)
	otherDir, _, otherFingerprint := folder(t)
	north, south := admitted(t, dir, "north"), admitted(t, dir, "south")
	r := roster.Roster{Study: "s", Schema: "c", Authority: fingerprint, Dataset: "heart", Generation: 1,
		Sites: []roster.Site{north, south}}
	good, err := roster.Sign(dir, r)
	testkit.Must(t, err)
	sign := func(dir string, change func(*roster.Roster)) roster.Signed {
		other := r
		other.Sites = []roster.Site{north, south}
		change(&other)
		text, err := json.Marshal(other)
		testkit.Must(t, err)
		signature, err := authority.Sign(dir, append([]byte("conclave roster 1\n"), text...))
		testkit.Must(t, err)
		return roster.Signed{Text: text, Signature: signature}
	}
	if _, err := sign(dir, func(*roster.Roster) {}).Check(ca, time.Now()); err != nil {
		t.Fatal("the roster that the others are made of is not good:", err)
	}
	replaced := func(from, to string) roster.Signed {
		return roster.Signed{Text: bytes.Replace(good.Text, []byte(from), []byte(to), 1), Signature: good.Signature}
	}
	for name, s := range map[string]roster.Signed{
		"another dataset":          replaced("heart", "brain"),
		"another generation":       replaced(`"generation":1`, `"generation":2`),
		"another key":              replaced(south.Key, strings.Repeat("0", 64)),
		"a space":                  replaced(`{"study"`, `{ "study"`),
		"a field more":             replaced(`{"study"`, `{"more":1,"study"`),
		"no signature":             {Text: good.Text},
		"nothing":                  {},
		"another one's signature":  {Text: good.Text, Signature: sign(otherDir, func(*roster.Roster) {}).Signature},
		"another authority":        sign(otherDir, func(r *roster.Roster) { r.Authority = otherFingerprint }),
		"another authority named":  sign(dir, func(r *roster.Roster) { r.Authority = otherFingerprint }),
		"a foreign certificate":    sign(dir, func(r *roster.Roster) { r.Sites[0] = admitted(t, otherDir, "north") }),
		"a site twice":             sign(dir, func(r *roster.Roster) { r.Sites[1] = north }),
		"a key twice":              sign(dir, func(r *roster.Roster) { r.Sites[1].Certificate = north.Certificate }),
		"another site's name":      sign(dir, func(r *roster.Roster) { r.Sites[1].Name = "west" }),
		"no sites":                 sign(dir, func(r *roster.Roster) { r.Sites = nil }),
		"no generation":            sign(dir, func(r *roster.Roster) { r.Generation = 0 }),
		"a name that is a path":    sign(dir, func(r *roster.Roster) { r.Dataset = "../x" }),
		"more than a roster takes": {Text: make([]byte, roster.MaxBytes+1), Signature: good.Signature},
	} {
		if _, err := s.Check(ca, time.Now()); !errors.Is(err, roster.ErrRoster) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	dir, ca, fingerprint := folder(f)
	signed, err := roster.Sign(dir, roster.Roster{Study: "s", Schema: "c", Authority: fingerprint, Dataset: "heart",
		Generation: 1, Sites: []roster.Site{admitted(f, dir, "north")}})
	testkit.Must(f, err)
	f.Add(signed.Text)
	f.Add([]byte(`{"sites":[{}]}`))
	now := time.Now()
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := roster.Parse(text); err == nil && len(r.Sites) == 0 {
			t.Fatal("a roster without sites was read")
		}
		r := roster.Signed{Text: text, Signature: signed.Signature}
		if _, err := r.Check(ca, now); err == nil && !bytes.Equal(text, signed.Text) {
			t.Fatal("another roster passes with the signature")
		}
	})
}
