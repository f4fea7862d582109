package request_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// approved makes a request at a site and the certificate for it.
func approved(t *testing.T, ca, site, name string, choice request.KeyChoice) *authority.Issued {
	t.Helper()
	q := testkit.Value(request.New(site, certs.RoleNode, name, nil, choice))
	return testkit.Value(authority.Approve(ca, q, time.Hour))
}

// A certificate is installed completely or not at all.
func TestInstall(t *testing.T) {
	dir, other, site := certstest.New(t), certstest.New(t), filepath.Join(t.TempDir(), "west")
	ca := testkit.Value(os.ReadFile(filepath.Join(dir, "ca.crt")))
	foreign := testkit.Value(os.ReadFile(filepath.Join(other, "ca.crt")))
	first := approved(t, dir, site, "west", request.FirstKey)
	elsewhere := approved(t, dir, t.TempDir(), "west", request.FirstKey)
	south := approved(t, dir, t.TempDir(), "south", request.FirstKey)
	for name, tc := range map[string]struct {
		certificate, ca []byte
		want            error
	}{
		"another's key":     {elsewhere.PEM, ca, certs.ErrKeyMismatch},
		"another's name":    {south.PEM, ca, certs.ErrWrongRole},
		"no authority":      {first.PEM, nil, certs.ErrMissing},
		"another authority": {first.PEM, foreign, certs.ErrForeign},
		"no authority's":    {first.PEM, first.PEM, certs.ErrMalformed},
		"nonsense":          {[]byte("x"), ca, certs.ErrMalformed},
		"a CA of nonsense":  {first.PEM, []byte("x"), certs.ErrMalformed},
		"the authority":     {ca, ca, certs.ErrNoIdentity},
		"two":               {append(first.PEM[:len(first.PEM):len(first.PEM)], first.PEM...), ca, certs.ErrMalformed},
	} {
		if _, err := request.Install(site, certs.RoleNode, "west", tc.certificate, tc.ca); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if _, err := os.Stat(certs.FilesAtSite(site, certs.RoleNode, "west").Cert); err == nil {
			t.Fatalf("%s: installed", name)
		}
	}
	testkit.Value(request.Install(site, certs.RoleNode, "west", first.PEM, ca))
	if _, err := request.Install(site, certs.RoleNode, "west", first.PEM, foreign); !errors.Is(err, certs.ErrExists) {
		t.Errorf("another authority: %v", err)
	}
	second := approved(t, dir, site, "west", request.NextKey)
	files := testkit.Value(request.Install(site, certs.RoleNode, "west", second.PEM, nil))
	pair := testkit.Value(pemfile.LoadPair(files.Cert, files.Key))
	if pair.Leaf.SerialNumber.Text(16) != second.Serial {
		t.Error("the renewed certificate is not in place")
	}
	if _, err := os.Stat(files.NextKey); err == nil {
		t.Error("the next key is still there")
	}
	// The previous one no longer matches.
	if _, err := request.Install(site, certs.RoleNode, "west", first.PEM, nil); !errors.Is(err, certs.ErrKeyMismatch) {
		t.Errorf("the old certificate again: %v", err)
	}
}
