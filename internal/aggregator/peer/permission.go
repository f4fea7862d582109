package peer

import (
	"slices"
	"strings"
	"sync"
	"time"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Permission is a site's decision about a run. A node is asked once per stream, before the run's first round there. A
// site that answered a round has charged its records, even if others then deny the run.
type Permission uint8

// The permissions.
const (
	NotAsked Permission = iota
	Asked               // no answer came yet
	Permitted
	Undecided // people at the site must decide
	Denied
)

// permissions are a stream's permissions by run. They are dropped when the run ends.
type permissions struct {
	mu    sync.Mutex
	byRun map[string]permission
}

type permission struct {
	is      Permission
	since   time.Time
	attempt uint64             // the attempt that asked
	why     string             // if undecided or denied
	key     *conclavev1.RunKey // of a permitted masked run
}

func (ps *permissions) set(run string, p permission) {
	if ps.byRun == nil {
		ps.byRun = map[string]permission{}
	}
	p.since = time.Now()
	ps.byRun[run] = p
}

// Permission returns the site's decision about a run and, if it is no permission, why. A denial holds only for the
// attempt, because the site may change its mind.
func (n *Node) Permission(run string, attempt uint64) (is Permission, why string) {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	p := n.permissions.byRun[run]
	if p.is == Denied && p.attempt != attempt {
		return NotAsked, ""
	}
	return p.is, p.why
}

// Inquire records that the node is asked about a run.
func (n *Node) Inquire(run string, attempt uint64) {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	n.permissions.set(run, permission{is: Asked, attempt: attempt})
}

// Decide records the site's decision. It returns false if the attempt did not ask, or was answered already. key comes
// with the permission of a masked run, and is nil otherwise.
func (n *Node) Decide(run string, attempt uint64, is Permission, why string, key *conclavev1.RunKey) bool {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	if p := n.permissions.byRun[run]; p.is != Asked || p.attempt != attempt {
		return false
	}
	n.permissions.set(run, permission{is: is, attempt: attempt, why: why, key: key})
	return true
}

// RunKey is the node's key for a masked run that its site permits.
func (n *Node) RunKey(run string) *conclavev1.RunKey {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	return n.permissions.byRun[run].key
}

// Await records that the node's site must decide about a run after all. The node is asked nothing more in it until it
// is ready.
func (n *Node) Await(run, why string) {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	n.permissions.set(run, permission{is: Undecided, why: why})
}

// Ready ends the wait for a decision or drops a permission, and reports whether there was one. The node is then asked
// again. The key of a masked run stays until then: an attempt that begins now names it.
func (n *Node) Ready(run string) bool {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	p := n.permissions.byRun[run]
	if p.is != Undecided && p.is != Permitted {
		return false
	}
	n.permissions.byRun[run] = permission{key: p.key}
	return true
}

// Forget drops the site's decision about a run: the node is asked again if the run continues.
func (n *Node) Forget(run string) {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	delete(n.permissions.byRun, run)
}

// Unpermitted is a run that a node's site has not permitted.
type Unpermitted struct {
	Run   string
	Is    Permission // Asked, Undecided or Denied
	Why   string
	Since time.Time
}

// Unpermitted lists the open runs that the node's site has not permitted, by name.
func (n *Node) Unpermitted() (all []Unpermitted) {
	n.permissions.mu.Lock()
	defer n.permissions.mu.Unlock()
	for run, p := range n.permissions.byRun {
		if p.is != Permitted && p.is != NotAsked {
			all = append(all, Unpermitted{run, p.is, p.why, p.since})
		}
	}
	slices.SortFunc(all, func(a, b Unpermitted) int { return strings.Compare(a.Run, b.Run) })
	return all
}
