package clustertest

import (
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
)

var ports = struct {
	sync.Mutex
	next int
}{next: 12000 + os.Getpid()%250*64}

// FreeAddress is an address on a host where nothing listens and that no other test gets. It is below the ephemeral
// ports, so that it stays free while its server is away.
func FreeAddress(t testing.TB, host string) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		ports.next++
		address := net.JoinHostPort(host, strconv.Itoa(ports.next))
		if host != "127.0.0.1" {
			return address // in a namespace without other users
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}
