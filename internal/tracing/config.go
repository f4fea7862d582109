package tracing

import (
	"errors"
	"fmt"
	"net"
)

// Config says where a process sends its traces. For what they contain, see docs/traces.md.
type Config struct {
	// Endpoint is the host:port of a collector that takes OTLP over gRPC. Default: none.
	Endpoint string `yaml:"endpoint"`
	// Insecure sends spans in the clear instead of over TLS, for a collector on the same machine or in the same pod.
	// Default: false.
	Insecure bool `yaml:"insecure"`
	// CA is the path of the PEM file of the authorities that the collector's certificate is checked against. Default:
	// those of the system.
	CA string `yaml:"ca"`
}

// Validate reports the errors of [Start] without starting.
func (c Config) Validate() error {
	if c.Endpoint == "" {
		if c.Insecure || c.CA != "" {
			return errors.New("traces: endpoint is missing; give host:port of a collector, or leave traces out")
		}
		return nil
	}
	if host, port, err := net.SplitHostPort(c.Endpoint); err != nil || host == "" || port == "" || port == "0" {
		return fmt.Errorf("traces: endpoint %q is not an address; give host:port of a collector that takes OTLP over "+
			"gRPC, such as 127.0.0.1:4317", c.Endpoint)
	}
	if c.Insecure && c.CA != "" {
		return errors.New("traces: set either insecure or ca, because ca needs TLS")
	}
	return nil
}
