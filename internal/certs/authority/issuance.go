package authority

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/url"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// issuance is the checked content of a certificate, and the authority that signs it.
type issuance struct {
	id       certs.Identity
	hosts    []string
	template *x509.Certificate
	ca       *x509.Certificate
	signer   crypto.Signer
}

// newIssuance checks a certificate that the authority in dir is to issue. It writes nothing.
func newIssuance(dir string, id certs.Identity, hosts []string, validity time.Duration,
	now time.Time) (*issuance, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	if validity <= 0 {
		return nil, fmt.Errorf("validity %v must be positive", validity)
	}
	if err := id.CheckSite(); err != nil {
		return nil, err
	}
	ips, names, err := certs.SplitHosts(id.Role, hosts)
	if err != nil {
		return nil, err
	}
	ca, signer, err := load(dir, now)
	if err != nil {
		return nil, err
	}
	if now.Add(validity).After(ca.NotAfter) {
		return nil, fmt.Errorf("validity %v ends after the authority's own, on %s; use a shorter one, or renew the "+
			"authority", validity, ca.NotAfter.Format(time.DateOnly))
	}
	template := &x509.Certificate{
		Subject:               id.Subject(),
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:                  []*url.URL{id.URI()},
		IPAddresses:           ips,
		DNSNames:              names,
	}
	if id.Role == certs.RoleAggregator {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return &issuance{id: id, hosts: hosts, template: template, ca: ca, signer: signer}, nil
}

// sign issues the certificate for a public key. The register has it, on disk, before anyone receives it, so that every
// certificate can be revoked by its name.
func (t *issuance) sign(dir string, public crypto.PublicKey, now time.Time) (der []byte, line Entry, err error) {
	fingerprint, err := certs.Fingerprint(public)
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
			Time: moment(now), Event: EventIssued, Serial: serialText(cert.SerialNumber), Role: t.id.Role,
			Name:  t.id.Name,
			Hosts: t.hosts, Fingerprint: fingerprint, NotBefore: moment(cert.NotBefore),
			NotAfter: moment(cert.NotAfter),
		}
		return r.append(line)
	})
	return der, line, err
}
