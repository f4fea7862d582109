package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ledgerHead is the newest entry of the dataset's ledger that a node was told of. It is
// remembered so that a ledger which was restored from an old backup, or begun anew, is found by
// nodes that answered under the one before. It is written within a second, and when a stream ends.
// While it cannot be, the node answers nothing.
type ledgerHead struct {
	path string

	mu      sync.Mutex
	head    sitepolicy.LedgerHead
	written sitepolicy.LedgerHead
	err     error // of the last try to write
}

// headEvery is how often what is new is written: rounds may come by the hundred.
const headEvery = time.Second

// errWentBack marks an aggregator whose ledger is not the one that the node answered under.
var errWentBack = errors.New("the ledger went back")

func ledgerHeadPath(dir string) string { return filepath.Join(dir, "dataset-ledger.head") }

// loadLedgerHead reads what earlier starts were told; nothing before the first.
func loadLedgerHead(path string) (*ledgerHead, error) {
	head, err := sitepolicy.ReadLedgerHead(path)
	if err != nil {
		return nil, fmt.Errorf("what is known of the dataset's ledger: %w", err)
	}
	h := &ledgerHead{path: path}
	if head != nil {
		h.head, h.written = *head, *head
	}
	return h, nil
}

// hello is the head as the aggregator is told of it, nil where there is none.
func (h *ledgerHead) hello() *conclavev1.LedgerHead {
	h.mu.Lock()
	defer h.mu.Unlock()
	hash, err := hex.DecodeString(h.head.Hash)
	if h.head.Seq == 0 || err != nil {
		return nil
	}
	return &conclavev1.LedgerHead{Seq: h.head.Seq, Hash: hash}
}

// check refuses a ledger that ends before what is remembered, or has another entry there.
// What it holds behind that is the aggregator's to check: it refuses the hello.
func (h *ledgerHead) check(last *conclavev1.LedgerHead) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last == nil || h.head.Seq == 0 {
		return nil
	}
	same := last.GetSeq() != h.head.Seq || hex.EncodeToString(last.GetHash()) == h.head.Hash
	if last.GetSeq() < h.head.Seq || !same {
		return fmt.Errorf("%w: entry %d (%.12s) is not in the aggregator's, which ends with entry %d (%.12x): "+
			"what was spent since would be spent again; its operator has to restore a newer backup",
			errWentBack, h.head.Seq, h.head.Hash, last.GetSeq(), last.GetHash())
	}
	return nil
}

// observe takes in an entry that the aggregator names.
func (h *ledgerHead) observe(head *conclavev1.LedgerHead) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if head.GetSeq() > h.head.Seq && len(head.GetHash()) == sha256.Size {
		h.head = sitepolicy.LedgerHead{Seq: head.GetSeq(), Hash: hex.EncodeToString(head.GetHash())}
	}
}

// write writes what is new.
func (h *ledgerHead) write() error {
	h.mu.Lock()
	head, written := h.head, h.written
	h.mu.Unlock()
	if head == written {
		return nil
	}
	err := head.Write(h.path, (*os.File).Sync) // takes as long as the disk does
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err = err; err == nil {
		h.written = head
	}
	return err
}

// saveError is why the head could not be written the last time, nil where it could.
func (h *ledgerHead) saveError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return fmt.Errorf("%w: what is known of the dataset's ledger: %w", question.ErrState, h.err)
	}
	return nil
}

// saveOften writes the head every second until ctx ends, and then once more.
func (h *ledgerHead) saveOften(ctx context.Context, log *zap.Logger) {
	tick := time.NewTicker(headEvery)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		h.save(log)
	}
}

// save writes what is new, and logs why it cannot.
func (h *ledgerHead) save(log *zap.Logger) {
	if err := h.write(); err != nil {
		log.Error("cannot note what is known of the dataset's ledger, and answers nothing; "+
			"make room, and let this process write to the state folder", zap.Error(err))
	}
}
