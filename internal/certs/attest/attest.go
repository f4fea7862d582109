// Package attest has the statements that peers of a cluster sign with the keys of their certificates. Signatures can
// be checked on any later day, with only the authority's certificate.
//
// A statement is lines of text. The first line names its kind, so that a signature of one kind is not valid for
// another. It also differs from the start of everything else that these keys sign (TLS 1.3 signs 64 spaces first,
// masked runs a digest).
package attest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Statement is a text to sign.
type Statement string

// Head states that a dataset's ledger has an entry with a number and a hash, and that its chain was verified from the
// first entry up to it. A node or the aggregator signs it.
func Head(dataset string, seq uint64, hash string) Statement {
	return statement("conclave ledger head 1", dataset, strconv.FormatUint(seq, 10), hash)
}

// Release states that a run released files with a manifest and a certificate, by their SHA-256 in hex, and with
// reports, each a line of its SHA-256 and name. The student signs it.
func Release(run, manifest, certificate string, reports ...string) Statement {
	return statement(append([]string{"conclave release 1", run, manifest, certificate}, reports...)...)
}

// Decision says that a person at a site lets a run begin at a node, or does not. run and spec are its name and the
// SHA-256 of its spec in hex, what is a word, made and until (empty without an end) are RFC 3339 times. previous is
// the hash of the previous entry of the site's ledger. So the signature covers everything that the ledger says about
// the run, and a decision cannot be repeated elsewhere.
func Decision(dataset, site, node, run, spec, what, made, until, previous string) Statement {
	return statement(decision, dataset, site, node, run, spec, what, made, until, previous)
}

const decision = "conclave decision 2"

func statement(lines ...string) Statement { return Statement(strings.Join(lines, "\n") + "\n") }

// by returns the bytes that the key of a DER certificate signs for a statement. They include the certificate, because
// it decides whether a decision counts: another certificate of the same key cannot replace it.
func (s Statement) by(leaf []byte) []byte {
	if !strings.HasPrefix(string(s), decision+"\n") {
		return []byte(s)
	}
	sum := sha256.Sum256(leaf)
	return []byte(s + statement(hex.EncodeToString(sum[:])))
}

// Signature is a signature of a statement: ECDSA or RSA (PKCS #1 v1.5) with SHA-256, or Ed25519.
type Signature struct {
	// Chain has DER certificates: the signer's, then authorities up to the root.
	Chain [][]byte `json:"chain"`
	Value []byte   `json:"signature"`
}

// maxChain bounds the certificates of a signature, and maxBytes the size of each: a chain has one or two of 1 KiB.
// maxRSA bounds the bits of an RSA key, as TLS does, because a check takes time proportional to their square.
const (
	maxChain = 4
	maxBytes = 8 << 10
	maxRSA   = 8192
)

// Errors of this package, for errors.Is.
var (
	// ErrSignature: the signature does not match the statement and the certificate's key.
	ErrSignature = errors.New("the signature is not valid")
	// ErrChain: the certificate was not issued under the authority, or not valid on the day.
	ErrChain = errors.New("the signer's certificate is not one of the authority")
)

// Sign signs a statement with a certificate's key.
func Sign(pair tls.Certificate, s Statement) (Signature, error) {
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return Signature{}, errors.New("sign: the certificate has no private key")
	}
	if len(pair.Certificate) == 0 {
		return Signature{}, errors.New("sign: there is no certificate")
	}
	message, hash := s.by(pair.Certificate[0]), crypto.Hash(0)
	if _, pure := key.Public().(ed25519.PublicKey); !pure {
		digest := sha256.Sum256(message)
		message, hash = digest[:], crypto.SHA256
	}
	value, err := key.Sign(rand.Reader, message, hash)
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	return Signature{Chain: pair.Certificate, Value: value}, nil
}

// SignBy is Sign with the current certificate in files, which may have been renewed.
func SignBy(f certs.Files, s Statement) (Signature, error) {
	pair, err := pemfile.LoadPair(f.Cert, f.Key)
	if err != nil {
		return Signature{}, err
	}
	return Sign(pair, s)
}

// FromWire converts a received signature, and Wire one to send.
func FromWire(m *conclavev1.Signature) Signature {
	return Signature{Chain: m.GetChain(), Value: m.GetValue()}
}

// Wire converts a signature for sending; see [FromWire].
func (g Signature) Wire() *conclavev1.Signature {
	return &conclavev1.Signature{Chain: g.Chain, Value: g.Value}
}

// Signer is the author of a signature, according to its certificate. [Signer.Under] tells whether to trust that.
type Signer struct {
	certs.Identity
	Fingerprint string // SHA-256 of the public key, in hex
	chain       []*x509.Certificate
}

// Check checks that the certificate's key signed the statement, and returns the signer. Errors match [ErrSignature].
func (g Signature) Check(s Statement) (Signer, error) {
	fail := func(err error) (Signer, error) { return Signer{}, fmt.Errorf("%w: %w", ErrSignature, err) }
	if len(g.Chain) == 0 || len(g.Chain) > maxChain {
		return fail(fmt.Errorf("it comes with %d certificates; 1 to %d are possible", len(g.Chain), maxChain))
	}
	var by Signer
	for _, der := range g.Chain {
		if len(der) > maxBytes {
			return fail(fmt.Errorf("a certificate has %d bytes; %d are the most", len(der), maxBytes))
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fail(err)
		}
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return fail(fmt.Errorf("a certificate has a key of %d bits; %d are the most", key.N.BitLen(), maxRSA))
		}
		by.chain = append(by.chain, c)
	}
	leaf := by.chain[0]
	algorithm := x509.UnknownSignatureAlgorithm
	switch leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		algorithm = x509.ECDSAWithSHA256
	case *rsa.PublicKey:
		algorithm = x509.SHA256WithRSA
	case ed25519.PublicKey:
		algorithm = x509.PureEd25519
	}
	err := leaf.CheckSignature(algorithm, s.by(leaf.Raw), g.Value)
	if err == nil {
		by.Identity, err = certs.IdentityOf(leaf)
	}
	if err == nil {
		by.Fingerprint, err = certs.Fingerprint(leaf.PublicKey)
	}
	if err != nil {
		return fail(err)
	}
	return by, nil
}

// Under checks that the signer's certificate was issued under one of the authorities and was valid on a day, like
// 2006-01-02 in UTC: a release stays proven after certificates have expired. Errors match [ErrChain].
func (by Signer) Under(authorities *x509.CertPool, day string) error {
	begin, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return fmt.Errorf("%w: %q is no day", ErrChain, day)
	}
	end := begin.AddDate(0, 0, 1)
	at := begin // the first moment of the day when the whole chain is valid
	for _, c := range by.chain {
		if c.NotBefore.After(at) {
			at = c.NotBefore
		}
	}
	if !at.Before(end) {
		return fmt.Errorf("%w: %v: it begins after %s", ErrChain, by.Identity, day)
	}
	// The authority's own certificate may start later on that day.
	for _, moment := range []time.Time{at, end.Add(-time.Second)} {
		if err = by.At(authorities, moment); err == nil {
			return nil
		}
	}
	return err
}

// At is [Signer.Under] at a moment.
func (by Signer) At(authorities *x509.CertPool, moment time.Time) error {
	if err := certs.VerifyChain(by.chain, authorities, x509.ExtKeyUsageAny, moment); err != nil {
		return fmt.Errorf("%w: %v on %s: %w", ErrChain, by.Identity, moment.UTC().Format(time.DateOnly), err)
	}
	return nil
}

// Certificate is the signer's certificate.
func (by Signer) Certificate() *x509.Certificate { return by.chain[0] }
