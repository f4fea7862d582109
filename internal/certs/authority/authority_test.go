package authority

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// newCA is certstest.New, which a test of this package cannot import.
func newCA(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, Create(dir))
	testkit.Must(t, Issue(dir, certs.RoleAggregator, "agg", []string{"localhost", "127.0.0.1"}, time.Hour))
	testkit.Must(t, Issue(dir, certs.RoleNode, "north", nil, time.Hour))
	testkit.Must(t, Issue(dir, certs.RoleStudent, "lab", nil, time.Hour))
	return dir
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := newCA(t)
	read := func() string {
		var all strings.Builder
		for _, f := range testkit.Value(filepath.Glob(filepath.Join(dir, "*"))) {
			all.WriteString(f)
			all.Write(testkit.Value(os.ReadFile(f)))
		}
		return all.String()
	}
	before := read()
	for _, err := range []error{Create(dir), Issue(dir, certs.RoleNode, "north", nil, time.Hour)} {
		if !errors.Is(err, certs.ErrExists) {
			t.Errorf("got %v, want %v", err, certs.ErrExists)
		}
	}
	if read() != before {
		t.Error("files changed")
	}
	// An existing key alone is enough to refuse.
	testkit.Must(t, os.Remove(filepath.Join(dir, "ca.crt")))
	if err := Create(dir); !errors.Is(err, certs.ErrExists) {
		t.Errorf("with ca.key alone: %v, want %v", err, certs.ErrExists)
	}
	if info := testkit.Value(os.Stat(filepath.Join(dir, "node-north.key"))); info.Mode().Perm() != 0o600 {
		t.Errorf("key mode %v", info.Mode())
	}
	if info := testkit.Value(os.Stat(dir)); info.Mode().Perm() != 0o700 {
		t.Errorf("folder mode %v", info.Mode())
	}
}

func TestIssueRefuses(t *testing.T) {
	dir := newCA(t)
	hosts := []string{"localhost"}
	_, early := newIssuance(dir, certs.Identity{Role: certs.RoleNode, Name: "a"}, nil, time.Hour,
		time.Now().Add(-2*time.Hour))
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"before the authority began", early},
		{"no authority", Issue(t.TempDir(), certs.RoleNode, "a", nil, time.Hour)},
		{"unknown role", Issue(dir, "auditor", "a", nil, time.Hour)},
		{"path in name", Issue(dir, certs.RoleNode, "../a", nil, time.Hour)},
		{"empty name", Issue(dir, certs.RoleNode, "", nil, time.Hour)},
		{"aggregator without hosts", Issue(dir, certs.RoleAggregator, "a", nil, time.Hour)},
		{"empty host", Issue(dir, certs.RoleAggregator, "a", []string{""}, time.Hour)},
		{"no validity", Issue(dir, certs.RoleAggregator, "a", hosts, 0)},
		{"longer than the authority", Issue(dir, certs.RoleAggregator, "a", hosts, 2*caValidity)},
	} {
		if tc.err == nil {
			t.Errorf("%s: accepted", tc.name)
		}
	}
	for _, host := range []string{"bad host", " localhost", "1.2.3", "10.0.0.256", "agg:7443", "[::1]", "a..b",
		"agg.", "-a", "a-", "*", "*.org", "b.*.org", "größe.example", "agg\x00",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a"} {
		err := Issue(dir, certs.RoleAggregator, "a", []string{"localhost", host}, time.Hour)
		if err == nil || !strings.Contains(err.Error(), "not a DNS name or IP address") {
			t.Errorf("host %q: got %v", host, err)
		}
	}
	for _, site := range []string{"NORTH", "North", "north_1", "north-", strings.Repeat("a", 65)} {
		if err := Issue(dir, certs.RoleNode, site, nil, time.Hour); err == nil ||
			!strings.Contains(err.Error(), "name") {
			t.Errorf("site %q: got %v", site, err)
		}
	}
	// The names of other roles are not limited to site names.
	if err := Issue(dir, certs.RoleStudent, "Lab_1", nil, time.Hour); err != nil {
		t.Error(err)
	}
	if left := testkit.Value(filepath.Glob(filepath.Join(dir, "*-a.*"))); len(left) > 0 {
		t.Errorf("files of refused certificates: %v", left)
	}
	if left := testkit.Value(filepath.Glob(filepath.Join(dir, "node-[Nn]orth[^.]*"))); len(left) > 0 {
		t.Errorf("files of refused certificates: %v", left)
	}
}

func TestHostsThatCanBeDialled(t *testing.T) {
	dir := newCA(t)
	hosts := []string{"agg", "agg.example.org", "*.example.org", "my_agg", "3com.example", "xn--gre-6ka8i.example",
		"10.0.0.7", "::1", "fd00::7"}
	testkit.Must(t, Issue(dir, certs.RoleAggregator, "all", hosts, time.Hour))
	pair := testkit.Value(pemfile.LoadPair(filepath.Join(dir, "aggregator-all.crt"),
		filepath.Join(dir, "aggregator-all.key")))
	if len(pair.Leaf.DNSNames) != 6 || len(pair.Leaf.IPAddresses) != 3 {
		t.Errorf("names %v, addresses %v", pair.Leaf.DNSNames, pair.Leaf.IPAddresses)
	}
	for _, host := range []string{"agg", "agg.example.org", "b1.example.org", "10.0.0.7", "::1"} {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}
