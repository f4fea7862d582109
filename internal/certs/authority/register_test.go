package authority

import (
	"crypto/rand"
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

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// approved makes a request at a site and the certificate for it.
func approved(t *testing.T, ca, site string, role certs.Role, name string, hosts []string, choice request.KeyChoice,
	validity time.Duration) *Issued {
	t.Helper()
	q := testkit.Value(request.New(site, role, name, hosts, choice))
	return testkit.Value(Approve(ca, q, validity))
}

func leaf(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(raw)
	return testkit.Value(x509.ParseCertificate(block.Bytes))
}

// A certificate contains what was requested and shown, and nothing else.
func TestApprovedCertificates(t *testing.T) {
	dir := newCA(t)
	for _, tc := range []struct {
		role  certs.Role
		name  string
		hosts []string
	}{{certs.RoleNode, "west", nil}, {certs.RoleStudent, "lab2", nil}, {certs.RoleAggregator, "a2",
		[]string{"agg.example", "10.0.0.7"}}} {
		site := filepath.Join(t.TempDir(), tc.name)
		issued := approved(t, dir, site, tc.role, tc.name, tc.hosts, request.FirstKey, 48*time.Hour)
		c := leaf(t, issued.PEM)
		id, err := certs.IdentityOf(c)
		if err != nil || id != (certs.Identity{Role: tc.role, Name: tc.name}) || c.IsCA ||
			len(c.DNSNames)+len(c.IPAddresses) != len(tc.hosts) || c.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s: %v, %v", tc.name, id, err)
		}
		if server := len(c.ExtKeyUsage) == 2; server != (tc.role == certs.RoleAggregator) {
			t.Errorf("%s: usages %v", tc.name, c.ExtKeyUsage)
		}
		if issued.Serial != serialText(c.SerialNumber) || !issued.NotAfter.Equal(c.NotAfter) ||
			issued.Role != tc.role || issued.Name != tc.name {
			t.Errorf("the register has %+v", issued.Entry)
		}
		files, err := request.Install(site, tc.role, tc.name, issued.PEM,
			testkit.Value(os.ReadFile(filepath.Join(dir, "ca.crt"))))
		testkit.Must(t, err)
		use := certs.Files{CA: files.CA, Cert: files.Cert, Key: files.Key, Revoked: certs.RevokedFile(dir)}
		if tc.role == certs.RoleAggregator {
			_, err = tlsconfig.Server(use)
		} else {
			_, err = tlsconfig.Client(use, "localhost")
		}
		if err != nil {
			t.Errorf("%s: the files are not good: %v", tc.name, err)
		}
	}
}

// A key belongs to one name, and is unusable after its certificate was revoked, unless that was a renewal.
func TestAKeyIsForOneName(t *testing.T) {
	dir, site := newCA(t), t.TempDir()
	first := approved(t, dir, site, certs.RoleNode, "west", nil, request.FirstKey, time.Hour)
	files := certs.FilesAtSite(site, certs.RoleNode, "west")
	other := certs.FilesAtSite(site, certs.RoleStudent, "west")
	testkit.Must(t, os.Link(files.Key, other.Key))
	q := testkit.Value(request.New(site, certs.RoleStudent, "west", nil, request.SameKey))
	if _, err := Approve(dir, q, time.Hour); err == nil || !strings.Contains(err.Error(), `node "west"`) {
		t.Errorf("a second name for a key: %v", err)
	}
	testkit.Value(Revoke(dir, Revocation{Serial: first.Serial, Reason: certs.ReasonSuperseded}))
	second := approved(t, dir, site, certs.RoleNode, "west", nil, request.SameKey, time.Hour)
	testkit.Value(Revoke(dir, Revocation{Serial: second.Serial, Reason: certs.ReasonKeyCompromise}))
	q = testkit.Value(request.New(site, certs.RoleNode, "west", nil, request.SameKey))
	if _, err := Approve(dir, q, time.Hour); !errors.Is(err, certs.ErrRevoked) {
		t.Errorf("a key that was given up: %v", err)
	}
	approved(t, dir, site, certs.RoleNode, "west", nil, request.NextKey, time.Hour)
}

func TestInventory(t *testing.T) {
	dir := newCA(t)
	now := time.Now()
	for name, validity := range map[string]time.Duration{"ends": time.Hour, "long": 100 * 24 * time.Hour,
		"short": 9 * 24 * time.Hour} {
		testkit.Must(t, Issue(dir, certs.RoleNode, name, nil, validity))
	}
	testkit.Value(Revoke(dir, Revocation{Name: "lab", Reason: certs.ReasonLeft}))
	testkit.Value(Revoke(dir, Revocation{Serial: "AB:cd:01"}))
	states := func(after time.Duration) string {
		var all []string
		for _, h := range testkit.Value(inventory(dir, now.Add(after))) {
			all = append(all, fmt.Sprintf("%s/%s %s", h.Role, h.Name, h.State))
		}
		return strings.Join(all, ", ")
	}
	for after, want := range map[time.Duration]string{
		0: "/ revoked, aggregator/agg valid, node/ends valid, node/long valid, node/north valid," +
			" node/short valid, student/lab revoked",
		50 * time.Minute: "/ revoked, aggregator/agg expires soon, node/ends expires soon, node/long valid," +
			" node/north expires soon, node/short valid, student/lab revoked",
		7 * 24 * time.Hour: "/ revoked, aggregator/agg expired, node/ends expired, node/long valid," +
			" node/north expired, node/short expires soon, student/lab revoked",
		90 * 24 * time.Hour: "/ revoked, aggregator/agg expired, node/ends expired, node/long expires soon," +
			" node/north expired, node/short expired, student/lab revoked",
	} {
		if got := states(after); got != want {
			t.Errorf("after %v:\n got %s\nwant %s", after, got, want)
		}
	}
	for _, h := range testkit.Value(Inventory(dir)) {
		if h.Name == "lab" && (h.Reason != certs.ReasonLeft || h.RevokedAt.IsZero()) ||
			h.Name == "" && h.Serial != "abcd01" {
			t.Errorf("%+v", h)
		}
	}
}

// Lines are appended, a truncated one is ignored, and an invalid one stops everything, because it may contain a
// revocation.
func TestRegisterOnDisk(t *testing.T) {
	dir := newCA(t)
	path := registerFile(dir)
	before := testkit.Value(os.ReadFile(path))
	testkit.Must(t, os.WriteFile(path, append(before, []byte(`{"time":"2026-`)...), 0o600))
	if n := len(testkit.Value(Inventory(dir))); n != 3 {
		t.Errorf("%d certificates", n)
	}
	testkit.Must(t, Issue(dir, certs.RoleNode, "south", nil, time.Hour))
	after := testkit.Value(os.ReadFile(path))
	if !strings.HasPrefix(string(after), string(before)) || strings.Count(string(after), "\n") != 4 {
		t.Errorf("the register is\n%s", after)
	}
	for _, bad := range []string{"{}\n", "nonsense\n", `{"event":"forgotten","serial":"1"}` + "\n",
		`{"event":"issued","serial":"-1"}` + "\n", "\n"} {
		testkit.Must(t, os.WriteFile(path, append([]byte(bad), before...), 0o600))
		_, err := Revoke(dir, Revocation{Name: "north"})
		if !errors.Is(err, certs.ErrMalformed) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", bad, err)
		}
		if err := Issue(dir, certs.RoleNode, "east", nil, time.Hour); !errors.Is(err, certs.ErrMalformed) {
			t.Errorf("%q: issued: %v", bad, err)
		}
	}
}

// Concurrent issues and revocations lose nothing.
func TestRegisterIsForOneAtATime(t *testing.T) {
	dir := newCA(t)
	const people, each = 4, 3
	var wg sync.WaitGroup
	for p := range people {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("site-%d-%d", p, i)
				if err := Issue(dir, certs.RoleNode, name, nil, time.Hour); err != nil {
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
	testkit.Must(t, Issue(dir, certs.RoleStudent, "north", nil, time.Hour))
	old := filepath.Join(t.TempDir(), "ca")
	testkit.Must(t, Create(old))
	without(t, old)
	for name, tc := range map[string]struct {
		dir  string
		what Revocation
		says string
	}{
		"nobody":         {dir, Revocation{Name: "nobody"}, `no valid certificate of "nobody"`},
		"several roles":  {dir, Revocation{Name: "north"}, "give one of them with --role: node, student"},
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
	testkit.Value(Revoke(dir, Revocation{Name: "north", Role: certs.RoleStudent}))

	// With the right it works, and earlier certificates stay valid.
	testkit.Must(t, Renew(old))
	testkit.Value(Revoke(old, Revocation{Serial: "1"}))
	f := certs.IssuedFiles(old, certs.RoleNode, "north")
	f.Revoked = certs.RevokedFile(old)
	testkit.Value(tlsconfig.Client(f, "localhost"))
}

// without makes an authority from before it could sign lists, with one node.
func without(t *testing.T, dir string) {
	t.Helper()
	certFile, keyFile := certs.AuthorityFiles(dir)
	key := testkit.Value(pemfile.LoadKey(keyFile))
	pair := testkit.Value(pemfile.LoadPair(certFile, keyFile))
	template := *pair.Leaf
	template.KeyUsage = x509.KeyUsageCertSign
	der := testkit.Value(x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key))
	testkit.Must(t, pemfile.Replace(certFile, "CERTIFICATE", der))
	testkit.Must(t, os.Remove(certs.RevokedFile(dir)))
	testkit.Must(t, Issue(dir, certs.RoleNode, "north", nil, time.Hour))
}
