package preflight

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

// soon is how long before its expiry a certificate causes a warning.
const soon = 14 * 24 * time.Hour

// checkCertificates reports all problems of the three files; loading them as a node does would report only the first.
func (c *checker) checkCertificates() {
	f := c.config.TLS
	if f.CA == "" || f.Cert == "" || f.Key == "" {
		c.skip("certificate", "the configuration does not name all three files")
		return
	}
	c.trusted = true
	roots := c.readAuthority(f.CA)
	c.checkKeyMode(f.Key)
	certPEM, certErr := os.ReadFile(f.Cert)
	keyPEM, keyErr := os.ReadFile(f.Key)
	for _, err := range []error{certErr, keyErr} {
		if err != nil {
			c.distrust("certificate", "check the path and the permissions", "%v", err)
		}
	}
	if certErr != nil {
		return
	}
	chain := pemfile.Certificates(certPEM)
	if len(chain) == 0 {
		c.distrust("certificate", "use the certificate that was issued for this site", "%s has no certificate",
			f.Cert)
		return
	}
	if keyErr == nil {
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
			c.distrust("certificate", "use the two files that were issued together", "%s with %s: %v", f.Cert,
				f.Key, err)
		}
	}
	c.checkIdentity(chain[0])
	c.checkDates(f.Cert, chain[0], "ask for a new one: `conclave certs issue`")
	if roots == nil {
		return
	}
	// At a time when it is valid, because dates are checked separately.
	at := chain[0].NotBefore.Add(time.Second)
	if err := certs.VerifyChain(chain, roots, x509.ExtKeyUsageClientAuth, at); err != nil {
		c.distrust("certificate", "use files from the same authority", "%s against %s: %v", f.Cert, f.CA, err)
	}
	c.checkRevoked(f)
}

// checkRevoked reports problems of the revocation list, without which a node that has one configured trusts nobody.
// Problems of other files were reported before.
func (c *checker) checkRevoked(f certs.Files) {
	if f.Revoked == "" || !c.trusted {
		return
	}
	if _, err := tlsconfig.NewClientCredentials(f); err != nil {
		fix := "get the newest list from the authority's operator, and copy it to " + f.Revoked
		if errors.Is(err, certs.ErrRevoked) {
			fix = "to continue with this site, request a certificate for a new key: `conclave site request --renew " +
				"--new-key`"
		}
		c.distrust("revoked", fix, "%v", err)
		return
	}
	c.ok("revoked", "%s can be used", f.Revoked)
}

// distrust adds a problem that makes the certificate files unusable.
func (c *checker) distrust(name, fix, format string, args ...any) {
	c.trusted = false
	c.add(name, Problem, fix, format, args...)
}

func (c *checker) readAuthority(path string) *x509.CertPool {
	raw, err := os.ReadFile(path)
	if err != nil {
		c.distrust("authority", "ask the aggregator's operator for ca.crt", "%v", err)
		return nil
	}
	all := pemfile.Certificates(raw)
	if len(all) == 0 {
		c.distrust("authority", "ask the aggregator's operator for ca.crt", "%s has no certificate", path)
		return nil
	}
	roots := x509.NewCertPool()
	for _, one := range all {
		roots.AddCert(one)
		c.checkDates(path, one, "ask the aggregator's operator for the next authority's certificate")
	}
	return roots
}

func (c *checker) checkKeyMode(path string) {
	if at, err := os.Stat(path); err == nil && !c.openToOthers("key", path, at, "others may read the key") {
		c.ok("key", "%s, mode %04o", path, at.Mode().Perm())
	}
}

func (c *checker) checkIdentity(cert *x509.Certificate) {
	name, _ := certs.PeerName(tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}})
	role, who, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		c.distrust("certificate", "issue it with `conclave certs`", "it has no role and no site")
	case role != string(certs.RoleNode):
		c.add("certificate", Problem, "use a certificate issued with --role "+
			"node", "it is for %s %s, and this is a node",
			role, who)
	case who != c.config.Site:
		c.add("certificate", Problem, "set site to "+who+", or use the certificate of "+c.config.Site,
			"it is for site %s, the configuration says site %s", who, c.config.Site)
	default:
		key, err := certs.Fingerprint(cert.PublicKey)
		if err != nil {
			c.distrust("certificate", "request a certificate", "%v", err)
			return
		}
		// Masked runs and policies of other sites name this key.
		c.ok("certificate", "for node %s, until %s, key %s", who, cert.NotAfter.Format(time.RFC3339),
			certs.SpellFingerprint(key))
	}
}

func (c *checker) checkDates(path string, cert *x509.Certificate, fix string) {
	now := c.o.Now()
	switch {
	case now.After(cert.NotAfter):
		c.distrust("expiry", fix, "%s expired on %s", path, cert.NotAfter.Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		c.distrust("clock", "correct this machine's clock", "%s is not valid before %s, in %v", path,
			cert.NotBefore.Format(time.RFC3339), cert.NotBefore.Sub(now).Round(time.Second))
	case cert.NotAfter.Sub(now) < soon:
		c.add("expiry", Warning, fix, "%s expires on %s, in %v", path, cert.NotAfter.Format(time.RFC3339),
			cert.NotAfter.Sub(now).Round(time.Hour))
	}
}
