package tlsconfig

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// lookEvery is the minimum time between checks of the file for messages: a revocation takes effect at most this long
// after the file was replaced.
const lookEvery = 100 * time.Millisecond

// revoked are the certificates that a file of lists revokes. It is immutable.
type revoked struct {
	certificates map[certificateKey]x509.RevocationListEntry
	numbers      map[string]*big.Int // of each authority's list, by its name in DER
	until        time.Time           // when the first of the lists becomes too old
}

// certificateKey identifies a certificate: its issuer in DER and its serial.
type certificateKey struct{ issuer, serial string }

func keyOf(c *x509.Certificate) certificateKey {
	return certificateKey{string(c.RawIssuer), string(c.SerialNumber.Bytes())}
}

// revokedFile is a file of revocation lists, reloaded when it was replaced.
type revokedFile struct {
	path string
	now  func() time.Time

	began  time.Time
	looked atomic.Int64 // time of the last check, since began
	// good is the last valid content, nil before the first.
	good    atomic.Pointer[revoked]
	version atomic.Uint64 // how often good was set

	mu          sync.Mutex
	authorities []*x509.Certificate
	read        os.FileInfo // of the file last read, or nil
	problem     error       // why the file is unusable
}

func newRevokedFile(path string, now func() time.Time) *revokedFile {
	return &revokedFile{path: path, now: now, began: time.Now()}
}

// refresh checks the file now, if one is configured, for the authorities whose lists it must have. The error, which
// matches ErrList, says why no new peer may be accepted.
func (f *revokedFile) refresh(authorities []*x509.Certificate) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.EqualFunc(f.authorities, authorities, (*x509.Certificate).Equal) {
		f.authorities, f.read = authorities, nil
	}
	return f.look()
}

// glance checks the file unless somebody did shortly before now, or is doing so. It does not read the clock, which
// would cost more than everything else.
func (f *revokedFile) glance(now time.Time) {
	last := f.looked.Load()
	if now.Sub(f.began)-time.Duration(last) < lookEvery || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if f.looked.Load() == last {
		_ = f.look() // handshakes and the watch report it
	}
}

// look is refresh with mu held.
func (f *revokedFile) look() error {
	defer func() { f.looked.Store(int64(time.Since(f.began))) }()
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		f.read, f.problem = nil, fmt.Errorf("%w: %w; copy the authority's revoked.crl there, or remove tls.revoked "+
			"from the configuration", certs.ErrList, err)
	case f.read == nil || !os.SameFile(info, f.read) || info.Size() != f.read.Size() ||
		!info.ModTime().Equal(f.read.ModTime()):
		// The file's time comes first, so that a change during the read is seen next time.
		f.load(info)
	}
	if f.problem != nil {
		return f.problem
	}
	if err := f.good.Load().holds(f.now()); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

func (f *revokedFile) load(info os.FileInfo) {
	raw, err := os.ReadFile(f.path)
	if err != nil {
		f.read, f.problem = nil, fmt.Errorf("%w: %w; check the permissions", certs.ErrList, err)
		return
	}
	f.read = info
	fresh, err := parseLists(raw, f.authorities)
	if err == nil {
		err = fresh.follows(f.good.Load())
	}
	if err != nil {
		f.problem = fmt.Errorf("%s: %w: %w", f.path, certs.ErrList, err)
		return
	}
	f.problem = nil
	f.good.Store(fresh)
	f.version.Add(1)
}

// parseLists parses PEM lists, or one DER list. Each must be signed by one of the authorities.
func parseLists(raw []byte, authorities []*x509.Certificate) (*revoked, error) {
	lists := [][]byte{}
	for rest := raw; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != pemfile.RevocationList {
			return nil, fmt.Errorf("it contains a %q; use the authority's revoked.crl", block.Type)
		}
		lists = append(lists, block.Bytes)
	}
	if len(lists) == 0 {
		lists = append(lists, raw)
	}
	r := &revoked{certificates: map[certificateKey]x509.RevocationListEntry{}, numbers: map[string]*big.Int{}}
	for _, der := range lists {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return nil, fmt.Errorf("it has no readable list (%w); use the authority's revoked.crl", err)
		}
		if err := r.add(list, authorities); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *revoked) add(list *x509.RevocationList, authorities []*x509.Certificate) error {
	by := slices.IndexFunc(authorities, func(ca *x509.Certificate) bool {
		return bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil
	})
	if by < 0 {
		return fmt.Errorf("%w: %q did not sign it, is not in tls.ca, or may not sign lists (`conclave certs ca "+
			"--renew`)", certs.ErrForeign, list.Issuer)
	}
	if list.NextUpdate.IsZero() || list.Number == nil {
		return fmt.Errorf("the list of %q has no expiry or no number", list.Issuer)
	}
	if slices.ContainsFunc(list.Extensions, func(e pkix.Extension) bool { return e.Critical }) {
		return fmt.Errorf("the list of %q is incomplete (it has a critical extension); use the complete "+
			"list", list.Issuer)
	}
	issuer := string(list.RawIssuer)
	if r.numbers[issuer] != nil {
		return fmt.Errorf("it has two lists of %q", list.Issuer)
	}
	r.numbers[issuer] = list.Number
	if r.until.IsZero() || list.NextUpdate.Before(r.until) {
		r.until = list.NextUpdate
	}
	for _, e := range list.RevokedCertificateEntries {
		r.certificates[certificateKey{issuer, string(e.SerialNumber.Bytes())}] = e
	}
	return nil
}

// holds refuses lists that should have been replaced by a moment.
func (r *revoked) holds(at time.Time) error {
	if at.After(r.until) {
		return fmt.Errorf("%w: it expired on %s; write a new one with `conclave site crl`", certs.ErrList,
			r.until.Format(time.RFC3339))
	}
	return nil
}

// follows refuses lists that are older than the previous ones, because they would revive what was revoked since.
func (r *revoked) follows(before *revoked) error {
	if before == nil {
		return nil
	}
	for issuer, number := range before.numbers {
		if now := r.numbers[issuer]; now != nil && now.Cmp(number) < 0 {
			return errOlder(now, number)
		}
	}
	return nil
}

// since is follows for the numbers passed to [Signers.Since].
func (r *revoked) since(numbers map[string]*big.Int) error {
	for issuer, now := range r.numbers {
		if number := numbers[issuerSHA256(issuer)]; number != nil && now.Cmp(number) < 0 {
			return fmt.Errorf("%w: %w", certs.ErrList, errOlder(now, number))
		}
	}
	return nil
}

func errOlder(now, before *big.Int) error {
	return fmt.Errorf("its number is %v, but the previous list had %v: it is older; copy the newest list", now, before)
}

// covers refuses a certificate whose authority has no list here.
func (r *revoked) covers(key certificateKey) error {
	if r.numbers[key.issuer] == nil {
		return fmt.Errorf("%w: it has no list from the authority that issued the certificate; put the lists of all "+
			"authorities into one file", certs.ErrList)
	}
	return nil
}

func (r *revoked) check(key certificateKey) error {
	e, ok := r.certificates[key]
	if !ok {
		return nil
	}
	reason := ""
	for word, code := range certs.ReasonCodes {
		if code == e.ReasonCode && code != 0 {
			reason = " (" + word + ")"
		}
	}
	return fmt.Errorf("%w on %s%s", certs.ErrRevoked, e.RevocationTime.UTC().Format(time.RFC3339), reason)
}
