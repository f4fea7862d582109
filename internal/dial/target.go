// Package dial connects to the aggregator that leads. The target is one address, a list of addresses, or a host name
// that has several. A standby does not listen, so the one that answers leads. When the leader is gone, all addresses
// are tried until another one answers.
//
// It does not repeat a call that failed. The caller repeats calls that were in flight when a connection broke.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/version"
)

// PingEvery is the time without traffic after which a connection is pinged. Aggregators allow pings twice as often, and
// disconnect peers that ping more often.
const PingEvery = 10 * time.Second

const (
	// A connection is given up when nothing came back for pingTimeout after a ping.
	pingTimeout = 10 * time.Second
	// firstPause is the first pause between attempts, and growth the factor of each next one: after t seconds they are
	// t/6 apart, so that a returning aggregator is found soon, and an absent one is not asked all the time.
	firstPause = 100 * time.Millisecond
	growth     = 1.2
	// attempt bounds one attempt to connect, and one lookup of names.
	attempt = 5 * time.Second
)

// Target holds the possible addresses of an aggregator.
type Target struct {
	// addresses are host:port, at least one.
	addresses []string
	// serverName is the host name that certificates must carry; empty for the
	// host of the address.
	serverName string
}

// Parse reads addresses host:port, with commas between them. Certificates must carry serverName or, if that is empty,
// the host of the address.
func Parse(list, serverName string) (Target, error) {
	t := Target{serverName: serverName}
	if strings.TrimSpace(list) == "" {
		return t, errors.New("missing; give the address as host:port")
	}
	for _, address := range strings.Split(list, ",") {
		address = strings.TrimSpace(address)
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return t, fmt.Errorf("%q is not an address; give host:port, or several separated by commas", address)
		}
		if slices.Contains(t.addresses, address) {
			return t, fmt.Errorf("%q is listed twice", address)
		}
		t.addresses = append(t.addresses, address)
	}
	return t, nil
}

func (t Target) String() string { return strings.Join(t.addresses, ", ") }

// nameOf is the host name that the certificate at an address must carry.
func (t Target) nameOf(address string) string {
	if t.serverName != "" {
		return t.serverName
	}
	host, _, _ := net.SplitHostPort(address) // Parse has seen that it splits
	return host
}

// Conn is a connection to whichever aggregator leads.
type Conn struct {
	*grpc.ClientConn
	target  Target
	configs map[string]*tls.Config // by host name
}

// Connect makes a connection with a role's certificate. It returns at once, and
// connects when something is asked. Pauses between attempts grow to most.
func (t Target) Connect(files certs.Files, most time.Duration) (*Conn, error) {
	return t.connect(files, most, newNames(t))
}

func (t Target) connect(files certs.Files, most time.Duration, addresses names) (*Conn, error) {
	creds, err := tlsconfig.NewClientCredentials(files)
	if err != nil {
		return nil, err
	}
	c := &Conn{target: t, configs: map[string]*tls.Config{}}
	for _, address := range t.addresses {
		name := t.nameOf(address)
		if c.configs[name] == nil {
			c.configs[name] = creds.ClientTLS(name)
		}
	}
	c.ClientConn, err = grpc.NewClient("conclave:///"+t.addresses[0], append(TransportOptions(),
		grpc.WithResolvers(addresses),
		grpc.WithUserAgent(strings.ReplaceAll(version.Software, " ", "/")),
		grpc.WithTransportCredentials(byName{c.configs, creds}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: firstPause, Multiplier: growth, Jitter: 0.2, MaxDelay: max(firstPause, most),
			},
			MinConnectTimeout: addresses.attempt,
		}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("dial aggregator %s: %w", t, err)
	}
	return c, nil
}

// Probe checks that an aggregator and the role trust each other, as [certs.Probe] does for one address. It tries all
// addresses, and returns the first one's reason against the connection.
func (c *Conn) Probe(ctx context.Context) error {
	for _, address := range c.target.addresses {
		if err := tlsconfig.Probe(ctx, address, c.configs[c.target.nameOf(address)]); err != nil {
			return err
		}
	}
	return nil
}
