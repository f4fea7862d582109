package certs

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"
)

// terms are what a certificate will say, checked, and who signs it.
type terms struct {
	id       Identity
	hosts    []string
	template *x509.Certificate
	ca       *x509.Certificate
	signer   crypto.Signer
}

// newTerms checks what is to be issued by the authority in dir. It writes nothing.
func newTerms(dir string, id Identity, hosts []string, validity time.Duration, now time.Time) (*terms, error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	if validity <= 0 {
		return nil, fmt.Errorf("validity %v must be positive", validity)
	}
	if err := id.checkSite(); err != nil {
		return nil, err
	}
	ips, names, err := splitHosts(id.Role, hosts)
	if err != nil {
		return nil, err
	}
	ca, signer, err := loadCA(dir, now)
	if err != nil {
		return nil, err
	}
	if now.Add(validity).After(ca.NotAfter) {
		return nil, fmt.Errorf("validity %v ends after the authority's own, on %s; ask for less, or create a new authority", validity, ca.NotAfter.Format(time.DateOnly))
	}
	template := &x509.Certificate{
		Subject:               id.subject(),
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:                  []*url.URL{id.uri()},
		IPAddresses:           ips,
		DNSNames:              names,
	}
	if id.Role == RoleAggregator {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return &terms{id: id, hosts: hosts, template: template, ca: ca, signer: signer}, nil
}

// checkSite holds a node's name to what sites are called. It is not part of validate: the
// name of a certificate that another authority issued is compared with the site's when it
// is used.
func (i Identity) checkSite() error {
	if i.Role == RoleNode && !sitePattern.MatchString(i.Name) {
		return fmt.Errorf("name %q is no name of a site; a node's is that of its site: 1 to 64 small letters, digits, dots and hyphens, with a letter or digit at both ends", i.Name)
	}
	return nil
}

// subject is for people who look into a certificate; nothing reads it.
func (i Identity) subject() pkix.Name {
	return pkix.Name{CommonName: string(i.Role) + "-" + i.Name}
}

// sign issues the certificate for a public key. It stands in the register, on disk, before
// anybody has it, so that there is none that cannot be revoked by its name.
func (t *terms) sign(dir string, public crypto.PublicKey, now time.Time) (der []byte, line Entry, err error) {
	fingerprint, err := fingerprintOf(public)
	if err != nil {
		return nil, Entry{}, err
	}
	err = withRegister(dir, func(r *register) error {
		if err := r.mayHold(t.id, fingerprint); err != nil {
			return err
		}
		if der, err = x509.CreateCertificate(rand.Reader, t.template, t.ca, public, t.signer); err != nil {
			return fmt.Errorf("sign the certificate of %s: %w", t.id, err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("read the certificate of %s: %w", t.id, err)
		}
		line = Entry{
			Time: moment(now), Event: EventIssued, Serial: serialText(cert.SerialNumber), Role: t.id.Role, Name: t.id.Name,
			Hosts: t.hosts, Fingerprint: fingerprint, NotBefore: moment(cert.NotBefore), NotAfter: moment(cert.NotAfter),
		}
		return r.append(line)
	})
	return der, line, err
}

// fingerprintOf is the SHA-256 of a public key, as SubjectPublicKeyInfo in DER, in hex.
func fingerprintOf(public crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}
