package testkit

import (
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
)

// The ports of free addresses are below the ephemeral ones, so that they stay free while their server is away.
const firstPort, portBlocks, portsPerBlock = 12000, 125, 128

var ports struct {
	sync.Mutex
	next, end int
	held      []net.Listener // on the first port of each block of this process
}

// FreeAddress is an address on a host where nothing listens and that no other test gets. Each process has ports of
// its own.
func FreeAddress(t testing.TB, host string) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range portBlocks * portsPerBlock {
		if ports.next == ports.end {
			takePorts(t)
		}
		ports.next++
		address := net.JoinHostPort(host, strconv.Itoa(ports.next-1))
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

// takePorts takes the next block of ports that no other process has.
func takePorts(t testing.TB) {
	t.Helper()
	for i := range portBlocks {
		first := firstPort + (os.Getpid()+i)%portBlocks*portsPerBlock
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first))); err == nil {
			ports.held = append(ports.held, l)
			ports.next, ports.end = first+1, first+portsPerBlock
			return
		}
	}
	t.Fatal("no free ports")
}
