package tlsconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Signatures count while their certificate is valid at that moment, and no longer.
func TestWhoseSignaturesCount(t *testing.T) {
	dir := certstest.New(t)
	testkit.Must(t, authority.Issue(dir, certs.RoleApprover, "ann", nil, time.Hour))
	files := certs.IssuedFiles(dir, certs.RoleApprover, "ann")
	s := attest.Decision("d", "north", "0", "r", "spec", "approve", "made", "", "before")
	signature, err := attest.SignBy(files, s)
	testkit.Must(t, err)
	by, err := signature.Check(s)
	testkit.Must(t, err)
	if by.Role != certs.RoleApprover || by.Name != "ann" || by.Certificate().NotAfter.IsZero() {
		t.Errorf("signed by %v", by.Identity)
	}
	now := time.Now()
	plain := tlsconfig.NewSigners(certs.Files{CA: files.CA}, time.Now)
	testkit.Must(t, plain.Check(by, now))
	for _, at := range []time.Time{now.Add(-24 * time.Hour), now.Add(2 * time.Hour)} {
		if err := plain.Check(by, at); !errors.Is(err, attest.ErrChain) {
			t.Errorf("at %v: %v, want ErrChain", at, err)
		}
	}
	foreign, _ := certs.AuthorityFiles(certstest.New(t))
	others := tlsconfig.NewSigners(certs.Files{CA: foreign}, time.Now)
	if err := others.Check(by, now); !errors.Is(err, attest.ErrChain) {
		t.Errorf("under another authority: %v, want ErrChain", err)
	}
	list := filepath.Join(t.TempDir(), "revoked.crl")
	listed := tlsconfig.NewSigners(certs.Files{CA: files.CA, Revoked: list}, time.Now)
	if err := listed.Check(by, now); !errors.Is(err, certs.ErrList) {
		t.Errorf("without the list: %v, want ErrList", err)
	}
	copyList := func() { testkit.Must(t, os.WriteFile(list, testkit.Read(t, certs.RevokedFile(dir)), 0o600)) }
	copyList()
	testkit.Must(t, listed.Check(by, now))
	older := testkit.Read(t, list)
	_, err = authority.Revoke(dir, authority.Revocation{Name: "ann", Reason: certs.ReasonKeyCompromise})
	testkit.Must(t, err)
	copyList()
	if err := listed.Check(by, now); !errors.Is(err, certs.ErrRevoked) {
		t.Errorf("revoked: %v, want ErrRevoked", err)
	}
	// The older list is refused by this process, and by the next one that is told the numbers.
	numbers := listed.Numbers()
	testkit.Must(t, os.WriteFile(list, older, 0o600))
	next := tlsconfig.NewSigners(certs.Files{CA: files.CA, Revoked: list}, time.Now)
	testkit.Must(t, next.Check(by, now)) // it does not know the numbers yet
	next.Since(numbers)
	for _, s := range []*tlsconfig.Signers{listed, next} {
		if err := s.Check(by, now); !errors.Is(err, certs.ErrList) || !strings.Contains(err.Error(), "it is older") {
			t.Errorf("with an older list: %v, want ErrList", err)
		}
	}
	if len(numbers) != 1 || len(plain.Numbers()) != 0 {
		t.Errorf("numbers %v", numbers)
	}
}

// A list that should have been replaced by a moment is not used then, whatever the clock says.
func TestAnOldListIsNotUsedWhereTheClockWasSetBack(t *testing.T) {
	dir := certstest.New(t)
	testkit.Must(t, authority.Issue(dir, certs.RoleApprover, "ann", nil, 3*time.Hour))
	_, err := authority.WriteList(dir, time.Hour)
	testkit.Must(t, err)
	files := certs.IssuedFiles(dir, certs.RoleApprover, "ann")
	files.Revoked = certs.RevokedFile(dir)
	s := attest.Decision("d", "north", "0", "r", "spec", "approve", "made", "", "before")
	signature, err := attest.SignBy(files, s)
	testkit.Must(t, err)
	by, err := signature.Check(s)
	testkit.Must(t, err)
	signers := tlsconfig.NewSigners(files, time.Now)
	testkit.Must(t, signers.Check(by, time.Now()))
	if err := signers.Check(by, time.Now().Add(2*time.Hour)); !errors.Is(err, certs.ErrList) {
		t.Errorf("after the end of the list: %v, want ErrList", err)
	}
}
