package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// markOf is a mark as nodes are told of it, nil where it names nothing under which anything
// could be spent: the first entry is the dataset's own.
func markOf(m coordinator.Mark) *conclavev1.LedgerMark {
	hash, err := hex.DecodeString(m.Hash)
	if m.Seq <= 1 || err != nil {
		return nil
	}
	return &conclavev1.LedgerMark{Seq: m.Seq, Hash: hash}
}

// checkMark looks whether a dataset's ledger holds the entry that a node was told of, and
// returns the last one. A ledger that went back looks like any other but to those who
// remember: they stay away, and an operator has to look. What a node makes up costs nobody
// but itself.
func (s *teacherService) checkMark(ctx context.Context, dataset string, h *conclavev1.Hello) (coordinator.Mark, error) {
	seen := h.GetLedger()
	if seen != nil && (seen.GetSeq() == 0 || len(seen.GetHash()) != sha256.Size) {
		return coordinator.Mark{}, invalidf("node %s/%s names no entry of the ledger (a number from 1, and %d bytes)", h.GetSite(), h.GetNode(), sha256.Size)
	}
	return s.store.CheckMark(ctx, dataset, coordinator.Mark{Seq: seen.GetSeq(), Hash: hex.EncodeToString(seen.GetHash())})
}

// endOfLedger is the last entry of a dataset's ledger as nodes are told of it when a run has
// ended: of its last release no later round tells them. It is nil where etcd does not say.
func (s *Server) endOfLedger(d *dataset) *conclavev1.LedgerMark {
	ctx, cancel := context.WithTimeout(s.leading, presenceTimeout)
	defer cancel()
	last, err := s.store.CheckMark(ctx, d.record.Name, coordinator.Mark{})
	if err != nil {
		s.log.Warn("cannot tell nodes of the ledger's end", zap.String("dataset", d.record.Name), zap.Error(err))
	}
	return markOf(last)
}
