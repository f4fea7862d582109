package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Role is what the holder of a certificate may be.
type Role string

// The roles of a cluster.
const (
	RoleAggregator Role = "aggregator"
	RoleNode       Role = "node"
	RoleStudent    Role = "student"
)

// scheme of the URI that holds an identity.
const scheme = "conclave"

// names become parts of file names and URIs, so they are plain.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// sites are named as in a node's configuration.
var sitePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)

// Identity is whom a certificate was issued to.
type Identity struct {
	Role Role
	Name string
}

func (i Identity) String() string { return fmt.Sprintf("%s %q", i.Role, i.Name) }

func (i Identity) validate() error {
	switch i.Role {
	case RoleAggregator, RoleNode, RoleStudent:
	default:
		return fmt.Errorf("role %q is unknown; use %s, %s or %s", i.Role, RoleAggregator, RoleNode, RoleStudent)
	}
	if !namePattern.MatchString(i.Name) {
		return fmt.Errorf("name %q cannot be used; take 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit", i.Name)
	}
	return nil
}

func (i Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: string(i.Role), Path: "/" + i.Name}
}

// PeerIdentity returns whom the peer's certificate names. It accepts
// connections on which the certificate was verified against an authority: those
// that a listener with [ServerTLS] accepted. The error matches ErrNoIdentity.
func PeerIdentity(state tls.ConnectionState) (Identity, error) {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("%w: the peer presented no certificate that was verified; listen with certs.ServerTLS", ErrNoIdentity)
	}
	return identityOf(state.PeerCertificates[0])
}

// identityOf wants exactly one conclave URI, so that a certificate is never
// two things at once.
func identityOf(cert *x509.Certificate) (Identity, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		return Identity{}, fmt.Errorf("%w: %d URIs of the form %s://<role>/<name>, want one; issue it with `conclave certs`", ErrNoIdentity, len(found), scheme)
	}
	u := found[0]
	id := Identity{Role: Role(u.Host), Name: strings.TrimPrefix(u.Path, "/")}
	if err := id.validate(); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrNoIdentity, err)
	}
	if *u != *id.uri() { // a port, a query, an escaped path
		return Identity{}, fmt.Errorf("%w: %q is not of the form %s://<role>/<name>", ErrNoIdentity, u, scheme)
	}
	return id, nil
}
