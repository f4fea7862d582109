package monitor

import (
	"errors"
	"fmt"
	"net"
)

// Config says where a process can be watched, and where its log's level can be changed.
type Config struct {
	// Listen is host:port of plain HTTP for probes and metrics. Default: none. Nobody is
	// asked for a certificate there: keep it on a loopback, or behind a rule of the network
	// that lets the monitoring in and nobody else. Port 0 takes a free one.
	Listen string `yaml:"listen"`
	// Control is apart from what the monitoring reads. Default: none.
	Control Control `yaml:"control"`
}

// Control says where the level of the log can be changed, and by whom.
type Control struct {
	// Listen is host:port of plain HTTP for /loglevel, on a loopback: the token would
	// travel in the clear elsewhere. Default: none.
	Listen string `yaml:"listen"`
	// TokenFile holds what a caller has to show, as `Authorization: Bearer TOKEN`: 16
	// characters at least. It is read for every request. Required with Listen.
	TokenFile string `yaml:"token_file"`
}

// Validate refuses what [Listen] would without trying.
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
		return errors.New("http: control: token_file is missing; name a file with a random word, made by " +
			"openssl rand -hex 32")
	}
	return nil
}
