package clustertest

import (
	"errors"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
)

// Certificates makes an authority in a folder, and certificates of an aggregator on the hosts,
// of the student lab and of nodes' sites.
func Certificates(dir string, hosts []string, sites ...string) error {
	err := errors.Join(authority.Create(dir),
		authority.Issue(dir, certs.RoleAggregator, "aggregator", hosts, 24*time.Hour),
		authority.Issue(dir, certs.RoleStudent, "lab", nil, 24*time.Hour))
	for _, site := range sites {
		err = errors.Join(err, authority.Issue(dir, certs.RoleNode, site, nil, 24*time.Hour))
	}
	return err
}

// TLS is the TLS part of a configuration with these files.
func TLS(f certs.Files) string {
	return "{ca: " + f.CA + ", cert: " + f.Cert + ", key: " + f.Key + "}"
}
