package monitor

import (
	"fmt"
	"net"
)

// Config says where a process can be watched.
type Config struct {
	// Listen is host:port of plain HTTP for probes, metrics and the log's level.
	// Default: none. Nobody is asked for a certificate there, and whoever reaches it
	// may change the level: keep it on a loopback, or behind a rule of the network
	// that lets the monitoring in and nobody else. Port 0 takes a free one.
	Listen string `yaml:"listen"`
}

// Validate refuses what [Listen] would without trying.
func (c Config) Validate() error {
	if c.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("http: listen %q: %w; write host:port, such as 127.0.0.1:9090, or leave it out", c.Listen,
			err)
	}
	return nil
}
