package aggregator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/ledger"
)

// mostFound is how many entries at the end of a ledger a new leader examines. It exceeds the number of rounds in
// progress when the previous leader died.
const mostFound = 64

// auditFound writes an audit line for each release at the end of a dataset's ledger: a leader that is killed just
// after a charge leaves no line.
func (s *Server) auditFound(ctx context.Context, dataset string, head uint64) error {
	lines, err := s.store.Entries(ctx, dataset, head-min(head, mostFound), mostFound)
	if err != nil {
		return err
	}
	for _, line := range lines {
		var e ledger.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the end of the ledger of %s: %w", dataset, err)
		}
		if e.Type != ledger.EntryRelease {
			continue
		}
		err := s.audit.Write(peer.Caller{}, auditlog.Entry{
			Event: auditlog.Found, Dataset: dataset, Run: e.Run, Round: e.Round, Purpose: e.Kind,
			Charge: auditlog.Charge{EpsilonSpent: e.EpsilonSpent, LedgerSeq: e.Seq, LedgerHash: e.Hash},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
