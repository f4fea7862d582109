package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/etcdserver"
)

// etcd is where the ledger is.
type etcd struct {
	embedded *etcdserver.Server // nil with an external one
	store    *coordinator.Store
	lead     *coordinator.Leadership // nil before the server leads
}

// openStore starts the embedded etcd where one is configured, and dials.
func (s *Server) openStore(ctx context.Context) error {
	c := s.config.Etcd
	config := coordinator.Config{Endpoints: c.Endpoints, Prefix: c.Prefix, Observe: s.metrics.Etcd}
	var err error
	if c.Embedded {
		if s.embedded, err = etcdserver.Start(ctx,
			etcdserver.Config{Dir: c.Dir, Logger: s.log.Named("etcd")}); err != nil {
			return fmt.Errorf("start the embedded etcd in %s: %w", c.Dir, err)
		}
		config.Embedded = s.embedded
	} else if config.TLS, err = c.clientTLS(); err != nil {
		return err
	}
	if s.store, err = coordinator.Open(ctx, config); err != nil {
		return fmt.Errorf("open etcd: %w", err)
	}
	return nil
}

// watchEmbedded ends everything when the embedded etcd cannot go on: without it nothing can be
// charged, so nothing may be asked.
func (s *Server) watchEmbedded() {
	select {
	case <-s.embedded.Failed():
		s.life.EndLeading(fmt.Errorf("%w: the embedded etcd failed: %w", ErrLeadershipLost, s.embedded.Err()))
	case <-s.life.Leading().Done():
	}
}

func (s *Server) closeStore() error {
	if s.store != nil {
		s.store.Close()
	}
	if s.embedded != nil {
		if err := s.embedded.Close(); err != nil {
			return fmt.Errorf("close etcd: %w", err)
		}
	}
	return nil
}

// clientTLS returns nil when no file is set: plain TCP, for a tunnel or a
// loopback etcd.
func (c EtcdConfig) clientTLS() (*tls.Config, error) {
	if c.CA == "" && c.Cert == "" && c.Key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("etcd.ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd.ca: %s holds no PEM certificate", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd.cert, etcd.key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
