package round

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// signPatience is how long sites have to sign the ledger head. Later signatures are missing.
	signPatience = 10 * time.Second
	// signersPerSite bounds the nodes of a site that are asked: they usually share one certificate.
	signersPerSite = 3
)

// signing has the ledger heads that sites are asked to sign, by sequence number.
type signing struct {
	mu   sync.Mutex
	open map[uint64]*countersigning
}

// countersigning collects the signatures of the connected sites for one entry.
type countersigning struct {
	head   coordinator.LedgerHead
	wanted int // requests that wait for it
	bySite map[string]*conclavev1.Signature
	// due counts each site's asked nodes that have not answered; done is closed when there are none.
	due  map[string]int
	done chan struct{}
}

// Countersigned returns the newest ledger entry that nodes have received, with this aggregator's signature and those
// of connected sites that arrive in time. The signed content depends on no record.
func (rs *Rounds) Countersigned(ctx context.Context, d *Dataset) (coordinator.LedgerHead, []*conclavev1.Signature,
	error) {
	c, err := rs.askToSign(ctx, d)
	if err != nil {
		return coordinator.LedgerHead{}, nil, err
	}
	defer d.signing.leave(c)
	patience := time.NewTimer(signPatience)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
	case <-ctx.Done():
		return c.head, nil, context.Cause(ctx)
	case <-rs.Lifetime.Draining().Done():
		return c.head, nil, context.Cause(rs.Lifetime.Draining())
	}
	own, err := rs.Sign(attest.Head(d.Record.Name, c.head.Seq, c.head.Hash))
	if err != nil {
		return c.head, nil, fmt.Errorf("sign the ledger head: %w", err)
	}
	d.signing.mu.Lock()
	defer d.signing.mu.Unlock()
	return c.head, append(slices.Collect(maps.Values(c.bySite)), own.Wire()), nil
}

// askToSign asks the connected sites that have not signed yet to sign the last entry that all were sent. Their
// streams deliver the entry before this question.
func (rs *Rounds) askToSign(ctx context.Context, d *Dataset) (*countersigning, error) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	head, err := rs.Store.CheckHead(ctx, d.Record.Name, coordinator.LedgerHead{})
	if err != nil {
		return nil, err
	}
	if err := rs.tellRest(ctx, d, head.Seq); err != nil { // the entry is on its way to the nodes
		return nil, err
	}
	message, err := peer.Encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Sign{
		Sign: HeadOf(head), // not the first entry, which belongs to no run
	}})
	if err != nil {
		return nil, err
	}
	c, nodes := d.signing.begin(head, d.feed.followers)
	peer.Tell(nodes, message)
	return c, nil
}

// begin makes a request wait for the signatures of an entry. It returns the nodes to ask, or none if they were asked
// before.
func (s *signing) begin(head coordinator.LedgerHead, among map[*peer.Node]bool) (*countersigning, []*peer.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[head.Seq]; c != nil {
		c.wanted++
		return c, nil
	}
	c := &countersigning{
		head: head, wanted: 1, bySite: map[string]*conclavev1.Signature{}, due: map[string]int{},
		done: make(chan struct{}),
	}
	var asked []*peer.Node
	for n := range among {
		if c.due[n.ID.Site] < signersPerSite {
			c.due[n.ID.Site]++
			asked = append(asked, n)
		}
	}
	if len(asked) == 0 {
		close(c.done)
	}
	if s.open == nil {
		s.open = map[uint64]*countersigning{}
	}
	s.open[head.Seq] = c
	return c, asked
}

func (s *signing) leave(c *countersigning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.wanted--; c.wanted == 0 {
		delete(s.open, c.head.Seq)
	}
}

// Signed takes a node's signature of the ledger head. The error says why it does not count.
func (d *Dataset) Signed(n *peer.Node, m *conclavev1.SignedHead) error {
	d.signing.mu.Lock()
	defer d.signing.mu.Unlock()
	site := n.ID.Site
	c := d.signing.open[m.GetHead().GetSeq()]
	if c == nil || c.due[site] == 0 {
		return nil // nobody waits for it, or another node of the site was faster
	}
	var wrong error
	if m.GetSignature() != nil {
		by, err := attest.FromWire(m.GetSignature()).Check(attest.Head(d.Record.Name, c.head.Seq, c.head.Hash))
		if err == nil && by.Identity != (certs.Identity{Role: certs.RoleNode, Name: site}) {
			err = fmt.Errorf("the signature is by %v", by.Identity)
		}
		if err == nil {
			c.bySite[site] = m.GetSignature()
		} else {
			wrong = fault.Rejectf(fault.Malformed, "node %v sent an invalid signature of the ledger head: "+
				"%w", n.ID, err)
		}
	}
	if c.due[site]--; c.due[site] == 0 || c.bySite[site] != nil {
		delete(c.due, site)
	}
	if len(c.due) == 0 {
		close(c.done) // no site is pending from now on, so this runs once
	}
	return wrong
}
