package certs

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func sha256Sum(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

// approved makes a request at a site and the certificate that answers it.
func approved(t *testing.T, ca, site string, role Role, name string, hosts []string, choice KeyChoice, validity time.Duration) *Issued {
	t.Helper()
	q := testkit.Value(NewRequest(site, role, name, hosts, choice))
	return testkit.Value(Approve(ca, q, validity))
}

func leaf(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(raw)
	return testkit.Value(x509.ParseCertificate(block.Bytes))
}

// A certificate says what was asked for and shown, and nothing else.
func TestApprovedCertificates(t *testing.T) {
	dir := newCA(t)
	for _, tc := range []struct {
		role  Role
		name  string
		hosts []string
	}{{RoleNode, "west", nil}, {RoleStudent, "lab2", nil}, {RoleAggregator, "a2", []string{"agg.example", "10.0.0.7"}}} {
		site := filepath.Join(t.TempDir(), tc.name)
		issued := approved(t, dir, site, tc.role, tc.name, tc.hosts, FirstKey, 48*time.Hour)
		c := leaf(t, issued.PEM)
		id, err := identityOf(c)
		if err != nil || id != (Identity{tc.role, tc.name}) || c.IsCA || len(c.DNSNames)+len(c.IPAddresses) != len(tc.hosts) || c.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s: %v, %v", tc.name, id, err)
		}
		if server := len(c.ExtKeyUsage) == 2; server != (tc.role == RoleAggregator) {
			t.Errorf("%s: usages %v", tc.name, c.ExtKeyUsage)
		}
		if issued.Serial != serialText(c.SerialNumber) || !issued.NotAfter.Equal(c.NotAfter) || issued.Role != tc.role || issued.Name != tc.name {
			t.Errorf("the register has %+v", issued.Entry)
		}
		files,
			err := Install(site, tc.role, tc.name, issued.PEM, testkit.Value(os.ReadFile(filepath.Join(dir, "ca.crt"))))
		if err != nil {
			t.Fatal(err)
		}
		use := Files{CA: files.CA, Cert: files.Cert, Key: files.Key, Revoked: RevokedFile(dir)}
		if tc.role == RoleAggregator {
			_, err = ServerTLS(use)
		} else {
			_, err = ClientTLS(use, "localhost")
		}
		if err != nil {
			t.Errorf("%s: the files are not good: %v", tc.name, err)
		}
	}
}

// A key speaks for one name, and is gone with a certificate that was revoked, unless that
// one was renewed.
func TestAKeyIsForOneName(t *testing.T) {
	dir, site := newCA(t), t.TempDir()
	first := approved(t, dir, site, RoleNode, "west", nil, FirstKey, time.Hour)
	files := FilesAtSite(site, RoleNode, "west")
	other := FilesAtSite(site, RoleStudent, "west")
	if err := os.Link(files.Key, other.Key); err != nil {
		t.Fatal(err)
	}
	q := testkit.Value(NewRequest(site, RoleStudent, "west", nil, SameKey))
	if _, err := Approve(dir, q, time.Hour); err == nil || !strings.Contains(err.Error(), `node "west"`) {
		t.Errorf("a second name for a key: %v", err)
	}
	testkit.Value(Revoke(dir, Revocation{Serial: first.Serial, Reason: ReasonSuperseded}))
	second := approved(t, dir, site, RoleNode, "west", nil, SameKey, time.Hour)
	testkit.Value(Revoke(dir, Revocation{Serial: second.Serial, Reason: ReasonKeyCompromise}))
	q = testkit.Value(NewRequest(site, RoleNode, "west", nil, SameKey))
	if _, err := Approve(dir, q, time.Hour); !errors.Is(err, ErrRevoked) {
		t.Errorf("a key that was given up: %v", err)
	}
	approved(t, dir, site, RoleNode, "west", nil, NextKey, time.Hour)
}

func TestInventory(t *testing.T) {
	dir := newCA(t)
	now := time.Now()
	for name, validity := range map[string]time.Duration{"ends": time.Hour, "long": 100 * 24 * time.Hour, "short": 9 * 24 * time.Hour} {
		if err := issue(dir, Identity{RoleNode, name}, nil, validity, now); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Value(revoke(dir, Revocation{Name: "lab", Reason: ReasonLeft}, now))
	testkit.Value(revoke(dir, Revocation{Serial: "AB:cd:01"}, now))
	states := func(after time.Duration) string {
		var all []string
		for _, h := range testkit.Value(inventory(dir, now.Add(after))) {
			all = append(all, fmt.Sprintf("%s/%s %s", h.Role, h.Name, h.State))
		}
		return strings.Join(all, ", ")
	}
	for after, want := range map[time.Duration]string{
		0:                   "/ revoked, aggregator/agg valid, node/ends valid, node/long valid, node/north valid, node/short valid, student/lab revoked",
		50 * time.Minute:    "/ revoked, aggregator/agg expires soon, node/ends expires soon, node/long valid, node/north expires soon, node/short valid, student/lab revoked",
		7 * 24 * time.Hour:  "/ revoked, aggregator/agg expired, node/ends expired, node/long valid, node/north expired, node/short expires soon, student/lab revoked",
		90 * 24 * time.Hour: "/ revoked, aggregator/agg expired, node/ends expired, node/long expires soon, node/north expired, node/short expired, student/lab revoked",
	} {
		if got := states(after); got != want {
			t.Errorf("after %v:\n got %s\nwant %s", after, got, want)
		}
	}
	for _, h := range testkit.Value(Inventory(dir)) {
		if h.Name == "lab" && (h.Reason != ReasonLeft || h.RevokedAt.IsZero()) || h.Name == "" && h.Serial != "abcd01" {
			t.Errorf("%+v", h)
		}
	}
}

// Lines are appended, one that was cut off is as if it had never been, and a line that is
// no line stops everything: somebody may be revoked in it.
func TestRegisterOnDisk(t *testing.T) {
	dir := newCA(t)
	path := registerFile(dir)
	before := testkit.Value(os.ReadFile(path))
	if err := os.WriteFile(path, append(before, []byte(`{"time":"2026-`)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(testkit.Value(Inventory(dir))); n != 3 {
		t.Errorf("%d certificates", n)
	}
	if err := Issue(dir, RoleNode, "south", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	after := testkit.Value(os.ReadFile(path))
	if !strings.HasPrefix(string(after), string(before)) || strings.Count(string(after), "\n") != 4 {
		t.Errorf("the register is\n%s", after)
	}
	for _, bad := range []string{"{}\n", "nonsense\n", `{"event":"forgotten","serial":"1"}` + "\n", `{"event":"issued","serial":"-1"}` + "\n", "\n"} {
		if err := os.WriteFile(path, append([]byte(bad), before...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Revoke(dir, Revocation{Name: "north"})
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", bad, err)
		}
		if err := Issue(dir, RoleNode, "east", nil, time.Hour); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: issued: %v", bad, err)
		}
	}
}

// Nothing is lost when several people issue and revoke at once.
func TestRegisterIsForOneAtATime(t *testing.T) {
	dir := newCA(t)
	const people, each = 4, 3
	var wg sync.WaitGroup
	for p := range people {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("site-%d-%d", p, i)
				if err := Issue(dir, RoleNode, name, nil, time.Hour); err != nil {
					t.Error(err)
				}
				if _, err := Revoke(dir, Revocation{Name: name}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	revoked := 0
	for _, h := range testkit.Value(Inventory(dir)) {
		if h.State == StateRevoked {
			revoked++
		}
	}
	info := testkit.Value(WriteList(dir, 0))
	if revoked != people*each || info.Revoked != people*each {
		t.Errorf("%d revoked in the register and %d in the list, want %d", revoked, info.Revoked, people*each)
	}
}

func TestRevokeErrors(t *testing.T) {
	dir := newCA(t)
	if err := Issue(dir, RoleStudent, "north", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "ca")
	if err := createCA(old, time.Now()); err != nil {
		t.Fatal(err)
	}
	without(t, old)
	for name, tc := range map[string]struct {
		dir  string
		what Revocation
		says string
	}{
		"nobody":         {dir, Revocation{Name: "nobody"}, `no certificate of "nobody"`},
		"several roles":  {dir, Revocation{Name: "north"}, "say which role"},
		"reason":         {dir, Revocation{Name: "lab", Reason: "mood"}, "superseded"},
		"serial":         {dir, Revocation{Serial: "xyz"}, "hex digits"},
		"zero":           {dir, Revocation{Serial: "0"}, "hex digits"},
		"no authority":   {t.TempDir(), Revocation{Name: "lab"}, "no authority in"},
		"cannot sign it": {old, Revocation{Serial: "1"}, "certs ca --renew"},
	} {
		if _, err := Revoke(tc.dir, tc.what); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
	testkit.Value(Revoke(dir, Revocation{Name: "north", Role: RoleStudent}))

	// With the right it goes, and what was issued before stays good.
	if err := RenewCA(old); err != nil {
		t.Fatal(err)
	}
	testkit.Value(Revoke(old, Revocation{Serial: "1"}))
	f := IssuedFiles(old, RoleNode, "north")
	f.Revoked = RevokedFile(old)
	testkit.Value(ClientTLS(f, "localhost"))
}

// without makes an authority as it was before it could sign lists, with a node.
func without(t *testing.T, dir string) {
	t.Helper()
	certFile, keyFile := caFiles(dir)
	key := testkit.Value(loadKey(keyFile))
	pair := testkit.Value(loadPair(certFile, keyFile))
	template := *pair.Leaf
	template.KeyUsage = x509.KeyUsageCertSign
	der := testkit.Value(x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key))
	if err := replacePEM(certFile, "CERTIFICATE", der); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(RevokedFile(dir)); err != nil {
		t.Fatal(err)
	}
	if err := Issue(dir, RoleNode, "north", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// A certificate is installed where it belongs, or not at all.
func TestInstall(t *testing.T) {
	dir, other, site := newCA(t), newCA(t), filepath.Join(t.TempDir(), "west")
	ca := testkit.Value(os.ReadFile(filepath.Join(dir, "ca.crt")))
	foreign := testkit.Value(os.ReadFile(filepath.Join(other, "ca.crt")))
	first := approved(t, dir, site, RoleNode, "west", nil, FirstKey, time.Hour)
	elsewhere := approved(t, dir, t.TempDir(), RoleNode, "west", nil, FirstKey, time.Hour)
	south := approved(t, dir, t.TempDir(), RoleNode, "south", nil, FirstKey, time.Hour)
	for name, tc := range map[string]struct {
		certificate, ca []byte
		want            error
	}{
		"another's key":     {elsewhere.PEM, ca, ErrKeyMismatch},
		"another's name":    {south.PEM, ca, ErrWrongRole},
		"no authority":      {first.PEM, nil, ErrMissing},
		"another authority": {first.PEM, foreign, ErrForeign},
		"nonsense":          {[]byte("x"), ca, ErrMalformed},
		"the authority":     {ca, ca, ErrNoIdentity},
		"two":               {append(first.PEM[:len(first.PEM):len(first.PEM)], first.PEM...), ca, ErrMalformed},
	} {
		if _, err := Install(site, RoleNode, "west", tc.certificate, tc.ca); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if _, err := os.Stat(FilesAtSite(site, RoleNode, "west").Cert); err == nil {
			t.Fatalf("%s: installed", name)
		}
	}
	testkit.Value(Install(site, RoleNode, "west", first.PEM, ca))
	if _, err := Install(site, RoleNode, "west", first.PEM, foreign); !errors.Is(err, ErrExists) {
		t.Errorf("another authority: %v", err)
	}
	second := approved(t, dir, site, RoleNode, "west", nil, NextKey, time.Hour)
	files := testkit.Value(Install(site, RoleNode, "west", second.PEM, nil))
	pair := testkit.Value(loadPair(files.Cert, files.Key))
	if serialText(pair.Leaf.SerialNumber) != second.Serial {
		t.Error("the renewed certificate is not in place")
	}
	if _, err := os.Stat(files.NextKey); err == nil {
		t.Error("the next key is still there")
	}
	// The one before does not fit any more.
	if _, err := Install(site, RoleNode, "west", first.PEM, nil); !errors.Is(err, ErrKeyMismatch) {
		t.Errorf("the old certificate again: %v", err)
	}
}
