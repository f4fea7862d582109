package monitor

import (
	"errors"
	"fmt"
	"net"
)

// Config says where a process can be watched. This port does not ask for a certificate: keep it on a loopback, or let
// in only the monitoring. A node's figures tell roughly how many records it has, so keep them within the site. See
// docs/operations.md.
type Config struct {
	// Listen is the host:port of plain HTTP for `/healthz`, `/readyz` and `/metrics`. Port 0 takes a free one.
	// Default: none.
	Listen string `yaml:"listen"`
	// Control is a port apart from what the monitoring reads.
	Control Control `yaml:"control"`
}

// Control says where the level of the log can be changed, and by whom. See docs/operations.md#the-logs-level.
type Control struct {
	// Listen is the host:port of plain HTTP for `/loglevel`, on a loopback, because the token travels in the clear.
	// Default: none.
	Listen string `yaml:"listen"`
	// TokenFile is the path of a file with the token, of at least 16 characters. It is read for every request. Required
	// with `listen`. Default: none.
	TokenFile string `yaml:"token_file"`
}

// Validate reports what [Listen] would refuse, without listening.
func (c Config) Validate() error {
	var errs []error
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			errs = append(errs, fmt.Errorf("http: listen %q: %w; write host:port, such as 127.0.0.1:9090, or leave it "+
				"out", c.Listen, err))
		}
	}
	return errors.Join(append(errs, c.Control.validate())...)
}

func (c Control) validate() error {
	if c == (Control{}) {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("http: control: listen %q is not a host:port on loopback; write 127.0.0.1:9444, or leave "+
			"control out", c.Listen)
	}
	if c.TokenFile == "" {
		return errors.New("http: control: token_file is missing; give a file with a random word from openssl rand " +
			"-hex 32")
	}
	return nil
}
