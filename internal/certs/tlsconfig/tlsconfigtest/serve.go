// Package tlsconfigtest serves an aggregator's end of a connection for tests.
package tlsconfigtest

import (
	"errors"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Serve serves gRPC at an address with the files of an aggregator until stop is called or the test ends. It returns
// the address.
func Serve(t testing.TB, files certs.Files, address string, register func(*grpc.Server)) (at string, stop func()) {
	t.Helper()
	config, err := tlsconfig.Server(files)
	testkit.Must(t, err)
	listener, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		// A test that ends at once may stop the server before it serves.
		if err := testkit.Receive(t, served); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("the server ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}
