package dial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

// byName are the TLS settings by the host name that the server must prove: of
// several addresses each has its own.
type byName struct {
	configs map[string]*tls.Config
	creds   *tlsconfig.Credentials
}

func (c byName) ClientHandshake(ctx context.Context, name string,
	conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, ok := c.configs[name]
	if !ok {
		return nil, nil, fmt.Errorf("no TLS settings for the server name %q", name)
	}
	secured, info, err := credentials.NewTLS(config).ClientHandshake(ctx, name, conn)
	if err != nil {
		return nil, nil, err
	}
	state, ok := info.(credentials.TLSInfo)
	if !ok || len(state.State.PeerCertificates) == 0 {
		secured.Close()
		return nil, nil, fmt.Errorf("the server %q has no certificate", name)
	}
	return checked(secured, c.creds, tlsconfig.NewPeer(state.State.PeerCertificates[0])), info, nil
}

// ServerHandshake is for servers, which these settings are not.
func (c byName) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("these TLS settings are for clients")
}

func (c byName) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (c byName) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing: names come with the addresses.
func (c byName) OverrideServerName(string) error { return nil }
