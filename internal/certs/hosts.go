package certs

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
)

// labelPattern is a part of a DNS name between dots. Underscores are not in the
// standard, but in use.
var labelPattern = pattern.Of(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

var onlyDigits = pattern.Of(`^[0-9]+$`)

// SplitHosts checks the hosts by which the holder of a certificate is reached. Without this check an unreachable host
// would only show when the connections of all peers fail.
func SplitHosts(role Role, hosts []string) (ips []net.IP, names []string, err error) {
	if role == RoleAggregator && len(hosts) == 0 {
		return nil, nil, errors.New("an aggregator's certificate needs its host names or IP addresses (--hosts)")
	}
	for _, host := range hosts {
		switch ip := net.ParseIP(host); {
		case ip != nil:
			ips = append(ips, ip)
		case dnsName(host):
			names = append(names, host)
		default:
			return nil, nil, fmt.Errorf("host %q is not a DNS name or IP address; give hosts without ports and "+
				"spaces, separated by commas", host)
		}
	}
	return ips, names, nil
}

// dnsName reports whether a certificate can name the host. The last label must not be a number: that would be a
// mistyped IP address. A star may stand for the first label.
func dnsName(host string) bool {
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	if len(labels) > 2 && labels[0] == "*" {
		labels = labels[1:]
	}
	for _, label := range labels {
		if !labelPattern.MatchString(label) {
			return false
		}
	}
	return !onlyDigits.MatchString(labels[len(labels)-1])
}
