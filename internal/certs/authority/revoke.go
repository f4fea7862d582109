package authority

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// Revocation says what to revoke: a certificate by its serial, in hex, or by a name all its certificates that are
// neither expired nor revoked.
type Revocation struct {
	Serial string
	Name   string
	// Role distinguishes names that several roles use; empty if only one does.
	Role certs.Role
	// Reason is one of [Reasons]; empty for unspecified.
	Reason string
	// ListFor is how long the list may be used; see [WriteList].
	ListFor time.Duration
}

// Revoke records in the register of the authority in dir that certificates are revoked, and rewrites the list. It
// returns their entries, also of those revoked before; repeating it does no harm. Servers that read the new list
// refuse them from then on.
func Revoke(dir string, what Revocation) (revoked []Entry, err error) {
	if what.Reason == "" {
		what.Reason = certs.ReasonUnspecified
	}
	if _, ok := certs.ReasonCodes[what.Reason]; !ok {
		return nil, fmt.Errorf("reason %q is unknown; use one of %s", what.Reason, strings.Join(certs.Reasons(), ", "))
	}
	now := time.Now()
	signer, err := newLister(dir, now)
	if err != nil {
		return nil, err
	}
	err = withRegister(dir, func(r *register) error {
		targets, err := r.targets(what, now)
		if err != nil {
			return err
		}
		for _, e := range targets {
			line, done := r.revocation(e.Serial)
			if !done {
				line = Entry{Time: moment(now), Event: EventRevoked, Serial: e.Serial, Role: e.Role, Name: e.Name,
					Fingerprint: e.Fingerprint, Reason: what.Reason}
				if err := r.append(line); err != nil {
					return err
				}
			}
			revoked = append(revoked, line)
		}
		_, err = signer.write(r, what.ListFor)
		return err
	})
	return revoked, err
}

// targets are the certificates that a revocation names.
func (r *register) targets(what Revocation, now time.Time) ([]Entry, error) {
	if what.Serial != "" {
		n, err := parseSerial(what.Serial)
		if err != nil {
			return nil, err
		}
		for _, e := range r.entries {
			if e.Event == EventIssued && e.Serial == serialText(n) {
				return []Entry{e}, nil
			}
		}
		// Issued before there was a register, or by another program.
		return []Entry{{Serial: serialText(n)}}, nil
	}
	var found []Entry
	roles := map[string]bool{}
	for _, e := range r.entries {
		if e.Event != EventIssued || e.Name != what.Name || what.Role != "" && e.Role != what.Role ||
			now.After(e.NotAfter) {
			continue
		}
		found = append(found, e)
		roles[string(e.Role)] = true
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("the register has no valid certificate of %q; see `conclave site list`, or give its "+
			"serial", what.Name)
	case len(roles) > 1:
		return nil, fmt.Errorf("several roles have certificates with the name %q; give one of them with --role: %s",
			what.Name, strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
	}
	return found, nil
}

// ListInfo describes a revocation list.
type ListInfo struct {
	Path    string    `json:"path"`
	Number  string    `json:"number"`
	Revoked int       `json:"revoked"`
	Until   time.Time `json:"until"`
}

// WriteList rewrites the list of the authority in dir from its register. Servers refuse a list after validity; 0
// means as long as the authority's certificate is valid.
func WriteList(dir string, validity time.Duration) (info ListInfo, err error) {
	signer, err := newLister(dir, time.Now())
	if err != nil {
		return ListInfo{}, err
	}
	err = withRegister(dir, func(r *register) error {
		info, err = signer.write(r, validity)
		return err
	})
	return info, err
}

// lister signs revocation lists.
type lister struct {
	ca     *x509.Certificate
	signer crypto.Signer
	path   string
	now    time.Time
}

func newLister(dir string, now time.Time) (*lister, error) {
	ca, signer, err := load(dir, now)
	if err != nil {
		return nil, err
	}
	if ca.KeyUsage&x509.KeyUsageCRLSign == 0 {
		certFile, _ := certs.AuthorityFiles(dir)
		return nil, fmt.Errorf("%s: %w: this authority may not sign lists of revoked certificates; run `conclave "+
			"certs ca --renew`, and distribute the new ca.crt",
			certFile, certs.ErrWrongRole)
	}
	return &lister{ca: ca, signer: signer, path: certs.RevokedFile(dir), now: now}, nil
}

// write signs a list of the certificates revoked in the register or in the previous list, so that losing the register
// restores none.
func (l *lister) write(r *register, validity time.Duration) (ListInfo, error) {
	until := l.ca.NotAfter
	if validity > 0 && l.now.Add(validity).Before(until) {
		until = l.now.Add(validity)
	}
	list := &x509.RevocationList{ThisUpdate: l.now.Add(-backdate), NextUpdate: until}
	// A list from a restored backup of the authority still gets a higher number than earlier ones.
	list.Number = big.NewInt(l.now.UnixMilli())
	before, err := l.before()
	if err != nil {
		return ListInfo{}, err
	}
	listed := map[string]bool{}
	if before != nil {
		if list.Number.Cmp(before.Number) <= 0 {
			list.Number.Add(before.Number, big.NewInt(1))
		}
		for _, e := range before.RevokedCertificateEntries {
			listed[serialText(e.SerialNumber)] = true
			list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
				SerialNumber: e.SerialNumber, RevocationTime: e.RevocationTime, ReasonCode: e.ReasonCode,
			})
		}
	}
	for _, e := range r.entries {
		if e.Event != EventRevoked || listed[e.Serial] {
			continue
		}
		listed[e.Serial] = true
		n, err := parseSerial(e.Serial)
		if err != nil {
			return ListInfo{}, err
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: n, RevocationTime: e.Time, ReasonCode: certs.ReasonCodes[e.Reason],
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, l.ca, l.signer)
	if err != nil {
		return ListInfo{}, fmt.Errorf("sign %s: %w", l.path, err)
	}
	if err := pemfile.Replace(l.path, pemfile.RevocationList, der); err != nil {
		return ListInfo{}, err
	}
	return ListInfo{Path: l.path, Number: list.Number.String(), Revoked: len(listed), Until: moment(until)}, nil
}

// before is the previous list, or nil. A list of another authority is an error, because its revocations would be
// lost.
func (l *lister) before() (*x509.RevocationList, error) {
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the current list: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: %w: it has no list; move it away to create a new one from the register",
			l.path, certs.ErrMalformed)
	}
	list, err := x509.ParseRevocationList(block.Bytes)
	if err == nil {
		err = list.CheckSignatureFrom(l.ca)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w; move it away to create a new one from the register",
			l.path, certs.ErrMalformed, err)
	}
	if list.Number == nil {
		list.Number = new(big.Int)
	}
	return list, nil
}
