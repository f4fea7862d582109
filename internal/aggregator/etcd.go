package aggregator

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/etcdserver"
)

// EtcdConfig says which etcd holds the ledger. See docs/etcd.md.
type EtcdConfig struct {
	// Embedded runs an etcd in this process: one copy of the ledger on one disk, and no standby. Set `endpoints` if the
	// aggregator must survive its machine. Default: false.
	Embedded bool `yaml:"embedded"`
	// Dir is the folder of the embedded etcd, required with `embedded`. If it is lost, the ledger is lost, and nothing
	// more may be released. Default: none.
	Dir string `yaml:"dir"`
	// Endpoints lists the URLs of an etcd of your own. Required unless `embedded` is set. Default: none.
	Endpoints []string `yaml:"endpoints"`
	// CA is the path of the PEM file of the authorities that the etcd's certificate is checked against. Without it the
	// connection is plain TCP, which is refused beyond a loopback. Default: none.
	CA string `yaml:"ca"`
	// Cert is the path of the PEM file of the client certificate that etcd asks for. Set it with `key`. Default: none.
	Cert string `yaml:"cert"`
	// Key is the path of the PEM file of that certificate's key. Default: none.
	Key string `yaml:"key"`
	// Insecure allows plain TCP to another machine, for a tunnel: anyone on the way can read and rewrite the ledger.
	// Default: false.
	Insecure bool `yaml:"insecure"`
	// Prefix is the start of every key. Set it if several clusters share one etcd. Default: `/conclave/`.
	Prefix string `yaml:"prefix"`
	// LeaseTTL is how long a dead leader keeps the lead. With less, a standby takes over sooner. With too little,
	// a short pause of etcd or of the machine ends leadership. Default: `10s`; with `embedded` `5m`, since nobody else
	// can lead.
	LeaseTTL time.Duration `yaml:"lease_ttl"`
}

func (c EtcdConfig) validate() error {
	var errs config.Problems
	need := errs.Need
	need(!c.Embedded || len(c.Endpoints) == 0, "etcd: set either embedded or endpoints")
	need(!c.Embedded || c.Dir != "", "etcd: embedded needs dir, a persistent folder")
	need(c.Embedded || len(c.Endpoints) > 0, "etcd: set endpoints, or embedded: true with dir")
	need((c.Cert == "") == (c.Key == ""), "etcd: set cert and key together")
	plain := c.plainBeyondLoopback()
	need(c.Insecure || plain == "", "etcd: endpoints: %s is plain TCP to another machine, and the network could "+
		"rewrite the ledger; use https:// with ca, or set insecure: true if a tunnel protects it", plain)
	need(c.LeaseTTL == 0 || time.Second <= c.LeaseTTL && c.LeaseTTL <= 10*time.Minute,
		"etcd.lease_ttl: %v is not between 1s and 10m", c.LeaseTTL)
	return errors.Join(errs...)
}

// lease is how long a dead leader keeps the lead. With an embedded etcd it is long, so that a machine that is busy or
// asleep for a while just continues.
func (c EtcdConfig) lease() time.Duration {
	if c.Embedded {
		return cmp.Or(c.LeaseTTL, 5*time.Minute)
	}
	return cmp.Or(c.LeaseTTL, 10*time.Second)
}

// plainBeyondLoopback is an endpoint on another machine without TLS, or empty.
func (c EtcdConfig) plainBeyondLoopback() string {
	files := c.CA != "" || c.Cert != "" || c.Key != ""
	for _, endpoint := range c.Endpoints {
		scheme, host, found := strings.Cut(endpoint, "://")
		if !found { // the etcd client uses TLS if it has files for it
			scheme, host = "http", endpoint
			if files {
				scheme = "https"
			}
		}
		if scheme != "http" {
			continue
		}
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return endpoint
		}
	}
	return ""
}

// etcd is where the ledger is.
type etcd struct {
	embedded *etcdserver.Server // nil if etcd is external
	store    *coordinator.Store
	lead     *coordinator.Leadership // nil before the server leads
}

// openStore starts the embedded etcd, if one is configured, and connects.
func (s *Server) openStore(ctx context.Context) error {
	c := s.config.Etcd
	config := coordinator.Config{Endpoints: c.Endpoints, Prefix: c.Prefix, Observe: s.metrics.Etcd, Log: s.log}
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
	if c.Cert != "" {
		warnOfNoUsers(ctx, s.store, s.log)
	}
	return nil
}

// warnOfNoUsers logs a warning when etcd requires certificates but gives each of them all rights.
func warnOfNoUsers(ctx context.Context, store *coordinator.Store, log *zap.Logger) {
	switch known, err := store.KnowsUsers(ctx); {
	case err != nil:
		log.Warn("cannot check whether etcd has authentication", zap.Error(err))
	case !known:
		log.Warn("every certificate of etcd's authority can rewrite the ledger; create users and enable auth")
	}
}

// LoadEtcd reads only the etcd section of an aggregator's file; the other sections may be missing.
func LoadEtcd(path string) (EtcdConfig, error) {
	c := DefaultConfig()
	if err := config.Load(path, &c); err != nil {
		return EtcdConfig{}, err
	}
	for _, p := range []*string{&c.Etcd.Dir, &c.Etcd.CA, &c.Etcd.Cert, &c.Etcd.Key} {
		*p = config.Resolve(path, *p)
	}
	if err := c.Etcd.validate(); err != nil {
		return EtcdConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	return c.Etcd, nil
}

// OpenStore connects to an external etcd, to read or restore the ledger beside the aggregators. The error matches
// [coordinator.ErrUnavailable] if etcd does not answer.
func (c EtcdConfig) OpenStore(ctx context.Context) (*coordinator.Store, error) {
	if c.Embedded {
		return nil, fmt.Errorf("etcd.embedded: the folder %s is the ledger; to back it up, stop the aggregator and "+
			"copy the folder; to restore it, put the copy back; docs/backup.md has more ways", c.Dir)
	}
	tls, err := c.clientTLS()
	if err != nil {
		return nil, err
	}
	store, err := coordinator.Open(ctx, coordinator.Config{Endpoints: c.Endpoints, Prefix: c.Prefix, TLS: tls})
	if err != nil {
		return nil, fmt.Errorf("open etcd: %w", err)
	}
	return store, nil
}

// watchEmbedded ends the server when the embedded etcd fails: without it nothing can be charged, so nothing may be
// asked.
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
			return nil, fmt.Errorf("etcd.ca: %s has no PEM certificate", c.CA)
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
