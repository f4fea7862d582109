package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// protocolVersion is the version of the exchange. oldestProtocol is the oldest that a hello may name: nodes are
	// upgraded after their aggregators. Nodes before version 5 do not answer whether they permit a run.
	protocolVersion = 5
	oldestProtocol  = 5
	// maxNodeTeachers bounds the teachers of one node.
	maxNodeTeachers = 1 << 16
)

// admit checks a hello against the certificate, the dataset, its ledger and the manifest from the node's first join.
// It returns the ledger's last entry.
func (s *nodes) admit(ctx context.Context, h *conclavev1.Hello) (*round.Dataset, coordinator.LedgerHead, error) {
	d, node, err := s.examine(ctx, h)
	if err != nil {
		return nil, coordinator.LedgerHead{}, err
	}
	if err := s.bans.Join(peer.Offender{Site: node.Site, Dataset: d.Record.Name, Node: node.Name}); err != nil {
		return nil, coordinator.LedgerHead{}, err
	}
	last, err := s.checkHead(ctx, d.Record.Name, h)
	if err != nil {
		return nil, coordinator.LedgerHead{}, err
	}
	return d, last, s.admitNode(ctx, d, node)
}

// admitNode is [coordinator.Store.AdmitNode] with the limit on a site's names. It holds no lock during the request to
// etcd: after a change of leader all nodes join at once.
func (s *nodes) admitNode(ctx context.Context, d *round.Dataset, n coordinator.Node) error {
	id := peer.ID{Site: n.Site, Name: n.Name}
	known, err := d.Names.Reserve(id, func() (ids []peer.ID, err error) {
		admitted, err := s.Store.Nodes(ctx, d.Record.Name)
		for _, n := range admitted {
			ids = append(ids, peer.ID{Site: n.Site, Name: n.Name})
		}
		return ids, err
	})
	if err != nil {
		return fmt.Errorf("dataset %q: %w", d.Record.Name, err)
	}
	err = s.Store.AdmitNode(ctx, s.Lead, n)
	if err != nil && !known {
		d.Names.GiveBack(id)
	}
	return err
}

// examine is what admit checks before anything is stored.
func (s *nodes) examine(ctx context.Context, h *conclavev1.Hello) (*round.Dataset, coordinator.Node, error) {
	none := coordinator.Node{}
	if h.GetProtocol() < oldestProtocol || h.GetProtocol() > protocolVersion {
		return nil, none, fault.Refusedf("node %s uses protocol %d, this aggregator %d to %d; install matching "+
			"versions",
			fault.Word(h.GetNode()), h.GetProtocol(), oldestProtocol, protocolVersion)
	}
	if site := peer.SessionOf(ctx).Identity.Name; h.GetSite() != site {
		return nil, none, fault.Deniedf("the hello is from site %q, and the certificate is for site %q; use the "+
			"site's own certificate",
			fault.Word(h.GetSite()), site)
	}
	if err := spec.CheckName("site", h.GetSite()); err != nil {
		return nil, none, err
	}
	if err := spec.CheckName("node", h.GetNode()); err != nil {
		return nil, none, err
	}
	d, err := s.Rounds.Dataset(h.GetDataset())
	if err != nil {
		return nil, none, err
	}
	switch {
	case h.GetSchemaSha256() != d.Record.SchemaSHA256:
		return nil, none, fault.Refusedf("node %s/%s has schema %s, dataset %q has %s; use the same schema file "+
			"everywhere",
			h.GetSite(), h.GetNode(), fault.Word(h.GetSchemaSha256()), d.Record.Name, d.Record.SchemaSHA256)
	case h.GetUnit() != d.Record.Unit:
		return nil, none, fault.Refusedf("node %s/%s partitions by unit %q, dataset %q by %q; set the same unit "+
			"everywhere",
			h.GetSite(), h.GetNode(), fault.Word(h.GetUnit()), d.Record.Name, d.Record.Unit)
	case int(h.GetOverlap()) > d.Record.Budget.Sites():
		return nil, none, fault.Refusedf("units of node %s/%s may be at up to %d sites, those of dataset %q at up to "+
			"%d; a dataset's overlap cannot change: use another dataset",
			h.GetSite(), h.GetNode(), h.GetOverlap(), d.Record.Name, d.Record.Budget.Sites())
	case h.GetTeachers() == 0 || h.GetTeachers() > maxNodeTeachers:
		return nil, none, fault.Invalidf("node %s/%s has %d teachers; use 1 to %d",
			h.GetSite(), h.GetNode(), h.GetTeachers(), maxNodeTeachers)
	case h.GetManifest() == "" || len(h.GetManifest()) > 256:
		return nil, none, fault.Invalidf("node %s/%s sent no valid manifest fingerprint (1 to 256 characters)",
			h.GetSite(), h.GetNode())
	}
	return d, coordinator.Node{
		Dataset:      d.Record.Name,
		Site:         h.GetSite(),
		Name:         h.GetNode(),
		Manifest:     h.GetManifest(),
		SchemaSHA256: h.GetSchemaSha256(),
		Teachers:     h.GetTeachers(),
	}, nil
}

// checkHead checks that a dataset's ledger has the entry that a node remembers, and returns the last entry. Only
// peers that remember can detect a ledger that went back: they stay away, and an operator has to look. A false claim
// costs only the node itself.
func (s *nodes) checkHead(ctx context.Context, dataset string, h *conclavev1.Hello) (coordinator.LedgerHead, error) {
	seen := h.GetLedger()
	if seen != nil && (seen.GetSeq() == 0 || len(seen.GetHash()) != sha256.Size) {
		return coordinator.LedgerHead{}, fault.Invalidf("node %s/%s sent no valid ledger entry (a number from 1, and "+
			"%d bytes)", h.GetSite(), h.GetNode(), sha256.Size)
	}
	return s.Store.CheckHead(ctx, dataset, coordinator.LedgerHead{Seq: seen.GetSeq(),
		Hash: hex.EncodeToString(seen.GetHash())})
}

// Check tells a node whether it would be admitted. It has no effect: nothing is stored, and a connected node of the
// same name stays.
func (s *nodes) Check(ctx context.Context, q *conclavev1.CheckRequest) (*conclavev1.CheckResponse, error) {
	h := q.GetHello()
	r, err := s.check(ctx, h)
	return r, s.refused(ctx, err, auditlog.Entry{
		Method: "Check", Dataset: h.GetDataset(), Node: h.GetSite() + "/" + h.GetNode(),
	})
}

func (s *nodes) check(ctx context.Context, h *conclavev1.Hello) (*conclavev1.CheckResponse, error) {
	if h == nil {
		return nil, fault.Invalidf("a check must contain a hello")
	}
	asked := h
	if h.GetManifest() == "" { // none exists before the first start
		asked = proto.Clone(h).(*conclavev1.Hello)
		asked.Manifest = "none yet"
	}
	d, node, err := s.examine(ctx, asked)
	if err != nil {
		return nil, err
	}
	if _, err := s.checkHead(ctx, d.Record.Name, h); err != nil {
		return nil, err
	}
	known, err := s.Store.CheckNode(ctx, node)
	if err != nil {
		return nil, err
	}
	b := d.Record.Budget
	return &conclavev1.CheckResponse{
		Aggregator: s.Name, Protocol: protocolVersion, Known: known,
		Epsilon: b.Epsilon, Delta: b.Delta, Filter: string(b.Filter), TeachersLive: d.Teachers(),
	}, nil
}
