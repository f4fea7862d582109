package aggregator

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// handshakeWith dials with a certificate, accepts any server certificate, and waits for the server's verdict, which
// TLS 1.3 sends after the handshake.
func handshakeWith(t *testing.T, address string, files certs.Files) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	testkit.Must(t, err)
	conn, err := tls.Dial("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, NextProtos: []string{"h2"},
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	// A server that accepts sends its HTTP/2 settings first.
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestPlainAndOldTLSAreRefused(t *testing.T) {
	c := shared(t)
	if err := handshakeWith(t, c.server.Addr().String(),
		certs.IssuedFiles(c.certs, certs.RoleStudent, "student")); err != nil {
		t.Fatalf("a good certificate is refused: %v", err)
	}
	address := c.server.Addr().String()
	if _, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"}}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err == nil {
		defer conn.Close()
		testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			t.Error("a client without a certificate was accepted")
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	testkit.Must(t, c.stop())
	for name, change := range map[string]func(*Config){
		"no datasets":       func(c *Config) { c.Datasets = nil },
		"missing key":       func(c *Config) { c.TLS.Key += ".gone" },
		"a node's key pair": func(k *Config) { k.TLS = certs.IssuedFiles(c.certs, certs.RoleNode, "north") },
		"another budget":    func(c *Config) { c.Datasets[0].Budget.Epsilon = 7 },
		"missing schema": func(c *Config) {
			c.Datasets[0].SchemaSHA256, c.Datasets[0].Schema = "",
				"/nowhere/schema.yaml"
		},
		"address not ours": func(c *Config) { c.Listen = "192.0.2.1:1" },
		"etcd that is away": func(c *Config) {
			c.Etcd.Embedded, c.Etcd.Endpoints = false,
				[]string{"http://127.0.0.1:1"}
		},
		"unreadable etcd CA": func(c *Config) {
			c.Etcd.Embedded, c.Etcd.Endpoints, c.Etcd.CA = false, []string{"https://127.0.0.1:1"}, "/nowhere"
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := c.config
			config.Datasets = append([]DatasetConfig(nil), c.config.Datasets...)
			change(&config)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			s, err := New(ctx, config, Options{})
			if err == nil {
				s.Close()
				t.Fatal("started")
			}
			t.Log(err)
		})
	}
}
