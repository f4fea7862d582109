package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
)

// Role is the role of a certificate's holder.
type Role string

// The roles of a cluster.
const (
	RoleAggregator Role = "aggregator"
	RoleNode       Role = "node"
	RoleStudent    Role = "student"
	// RoleOperator may list, watch, cancel and remove the runs of all students, and nothing else.
	RoleOperator Role = "operator"
	// RoleApprover signs decisions on runs for the people of a site. It may call no method of an aggregator.
	RoleApprover Role = "approver"
	// RoleJoiner is in a site's start kit, and may only ask for the site's admission to a study.
	RoleJoiner Role = "joiner"
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{RoleAggregator, RoleNode, RoleStudent, RoleOperator, RoleApprover, RoleJoiner}
}

// Scheme of the URI that holds an identity.
const Scheme = "conclave"

// namePattern keeps names plain: they become parts of file names and URIs.
var namePattern = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// sitePattern is a valid site name in a node's configuration.
var sitePattern = pattern.Of(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)

// Identity is the holder of a certificate.
type Identity struct {
	Role Role
	Name string
}

func (i Identity) String() string { return fmt.Sprintf("%s %q", i.Role, i.Name) }

// Validate checks that the role exists and the name can be part of a file name.
func (i Identity) Validate() error {
	if !slices.Contains(Roles(), i.Role) {
		return fmt.Errorf("role %q is unknown; use one of %v", i.Role, Roles())
	}
	if !namePattern.MatchString(i.Name) {
		return fmt.Errorf("name %q is not valid; use 1 to 64 letters, digits, dots, dashes and underscores, starting "+
			"with a letter or digit", i.Name)
	}
	return nil
}

// URI is the identity as in a certificate.
func (i Identity) URI() *url.URL {
	return &url.URL{Scheme: Scheme, Host: string(i.Role), Path: "/" + i.Name}
}

// PeerIdentity returns the identity in the peer's certificate. It accepts connections whose certificate was verified
// against an authority: those that a listener with tlsconfig.Server accepted. The error matches ErrNoIdentity.
func PeerIdentity(state tls.ConnectionState) (Identity, error) {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("%w: the peer has no verified certificate; listen with "+
			"tlsconfig.Server", ErrNoIdentity)
	}
	return IdentityOf(state.PeerCertificates[0])
}

// IdentityOf reads the identity from a certificate, which must have exactly one conclave URI, so that it is
// unambiguous. The error matches ErrNoIdentity.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == Scheme {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		return Identity{}, fmt.Errorf("%w: %d URIs of the form %s://<role>/<name>, want one;"+
			" issue it with `conclave certs`", ErrNoIdentity, len(found), Scheme)
	}
	u := found[0]
	id := Identity{Role: Role(u.Host), Name: strings.TrimPrefix(u.Path, "/")}
	if err := id.Validate(); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrNoIdentity, err)
	}
	if *u != *id.URI() { // such as a port, a query or an escaped path
		return Identity{}, fmt.Errorf("%w: %q is not of the form %s://<role>/<name>", ErrNoIdentity, u, Scheme)
	}
	return id, nil
}

// CheckSite checks that a node's or joiner's name is a valid site name. It is not part of Validate, because the name
// in another authority's certificate is compared with the site's when it is used.
func (i Identity) CheckSite() error {
	if (i.Role == RoleNode || i.Role == RoleJoiner) && !sitePattern.MatchString(i.Name) {
		return fmt.Errorf("name %q is not a site name, and a %s has the name of its site; use 1 to 64 small letters, "+
			"digits, dots and hyphens, with a letter or digit at both ends", i.Name, i.Role)
	}
	return nil
}

// Subject is for people who inspect a certificate; no program reads it.
func (i Identity) Subject() pkix.Name {
	return pkix.Name{CommonName: string(i.Role) + "-" + i.Name}
}

// PeerName names the other side of a connection for the audit log: the identity in its certificate, as role/name, and
// the certificate's SHA-256 in hex. Both are empty without a certificate, and the name also without an identity. The
// handshake has verified it; for authorization use [PeerIdentity].
func PeerName(state tls.ConnectionState) (name, certificate string) {
	if len(state.PeerCertificates) == 0 {
		return "", ""
	}
	peer := state.PeerCertificates[0]
	sum := sha256.Sum256(peer.Raw)
	if id, err := IdentityOf(peer); err == nil {
		name = string(id.Role) + "/" + id.Name
	}
	return name, hex.EncodeToString(sum[:])
}
