package faults

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// network0 is the address of the test itself, of its proxies and of students.
const network0 = "10.99.0.1"

// namespaces exist once, so one test at a time uses them.
var namespaces sync.Mutex

// network is a bridge in the test's own namespace, with a namespace for each place. Without namespaces every place is
// on the loopback and cannot be partitioned.
type network struct {
	places []string
}

// newNetwork makes a namespace for each place once no other test has any. The kernel removes them with the test's
// own.
func newNetwork(places ...string) (*network, error) {
	namespaces.Lock()
	n := &network{places: places}
	commands := [][]string{
		{"link", "add", "br0", "type", "bridge"},
		{"addr", "add", network0 + "/24", "dev", "br0"},
		{"link", "set", "br0", "up"},
	}
	for _, p := range places {
		commands = append(commands,
			[]string{"netns", "add", p},
			[]string{"link", "add", port(p), "type", "veth", "peer", "name", "eth0", "netns", p},
			[]string{"link", "set", port(p), "master", "br0", "up"},
			[]string{"-n", p, "link", "set", "lo", "up"},
			[]string{"-n", p, "addr", "add", n.host(p) + "/24", "dev", "eth0"},
			[]string{"-n", p, "link", "set", "eth0", "up"})
	}
	for _, c := range commands {
		if err := ip(c...); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// remove removes the network for the next test.
func (n *network) remove() error {
	defer namespaces.Unlock()
	for _, p := range n.places {
		if err := ip("netns", "del", p); err != nil {
			return err
		}
	}
	return ip("link", "del", "br0")
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// port is the bridge's end of a place's link; interface names must be short.
func port(place string) string { return "v-" + place }

// host is the address of a place.
func (n *network) host(place string) string {
	if n == nil {
		return "127.0.0.1"
	}
	for i, p := range n.places {
		if p == place {
			return fmt.Sprintf("10.99.0.%d", 10+i)
		}
	}
	return network0
}

// enter is the command prefix to run at a place.
func (n *network) enter(place string) []string {
	if n == nil || n.host(place) == network0 {
		return nil
	}
	return []string{"ip", "netns", "exec", place}
}

// unplug disconnects a place from all others; plug reconnects it.
func (n *network) unplug(place string) error { return ip("link", "set", port(place), "down") }
func (n *network) plug(place string) error   { return ip("link", "set", port(place), "up") }

// block drops packets from a place to an address, but not the replies: they go to a machine that does not exist.
// Connections stay and time out, as behind a broken switch.
func (n *network) block(from, address string) error {
	return ip("-n", from, "neigh", "replace", address, "lladdr", "02:00:00:00:de:ad", "dev", "eth0", "nud", "permanent")
}

func (n *network) unblock(from, address string) error {
	return ip("-n", from, "neigh", "del", address, "dev", "eth0")
}
