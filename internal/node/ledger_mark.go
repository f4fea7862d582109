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

// ledgerMark remembers the newest entry of the dataset's ledger that a node was told of, so
// that a ledger which was restored from an old backup, or begun anew, is found by those who
// answered under the one before. It is written within a second, and when a stream ends.
// While it cannot be, the node answers nothing.
type ledgerMark struct {
	path string

	mu      sync.Mutex
	head    sitepolicy.Head
	written sitepolicy.Head
	err     error // of the last try to write
}

// markEvery is how often what is new is written: rounds may come by the hundred.
const markEvery = time.Second

// errWentBack marks an aggregator whose ledger is not the one that the node answered under.
var errWentBack = errors.New("the ledger went back")

func markPath(dir string) string { return filepath.Join(dir, "dataset-ledger.head") }

// loadMark reads what earlier starts were told; nothing before the first.
func loadMark(path string) (*ledgerMark, error) {
	h, err := sitepolicy.ReadHead(path)
	if err != nil {
		return nil, fmt.Errorf("what is known of the dataset's ledger: %w", err)
	}
	m := &ledgerMark{path: path}
	if h != nil {
		m.head, m.written = *h, *h
	}
	return m, nil
}

// hello is the mark as the aggregator is told of it, nil where there is none.
func (m *ledgerMark) hello() *conclavev1.LedgerMark {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash, err := hex.DecodeString(m.head.Hash)
	if m.head.Seq == 0 || err != nil {
		return nil
	}
	return &conclavev1.LedgerMark{Seq: m.head.Seq, Hash: hash}
}

// check refuses a ledger that ends before what is remembered, or has another entry there.
// What it holds behind that is the aggregator's to check: it refuses the hello.
func (m *ledgerMark) check(last *conclavev1.LedgerMark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last == nil || m.head.Seq == 0 {
		return nil
	}
	if last.GetSeq() < m.head.Seq || last.GetSeq() == m.head.Seq && hex.EncodeToString(last.GetHash()) != m.head.Hash {
		return fmt.Errorf("%w: entry %d (%.12s) is not in the aggregator's, which ends with entry %d (%.12x): what was spent since would be spent again; "+
			"its operator has to restore a newer backup", errWentBack, m.head.Seq, m.head.Hash, last.GetSeq(), last.GetHash())
	}
	return nil
}

// told takes in an entry that the aggregator names.
func (m *ledgerMark) told(mark *conclavev1.LedgerMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark.GetSeq() > m.head.Seq && len(mark.GetHash()) == sha256.Size {
		m.head = sitepolicy.Head{Seq: mark.GetSeq(), Hash: hex.EncodeToString(mark.GetHash())}
	}
}

// write writes what is new.
func (m *ledgerMark) write() error {
	m.mu.Lock()
	head, written := m.head, m.written
	m.mu.Unlock()
	if head == written {
		return nil
	}
	err := head.Write(m.path, (*os.File).Sync) // takes as long as the disk does
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err = err; err == nil {
		m.written = head
	}
	return err
}

// kept is why the mark could not be written the last time, nil where it could.
func (m *ledgerMark) kept() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return fmt.Errorf("%w: what is known of the dataset's ledger: %w", question.ErrState, m.err)
	}
	return nil
}

// keepMark writes the mark every second until ctx ends, and then once more.
func (n *Node) keepMark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		n.writeMark()
	}
}

func (n *Node) writeMark() {
	if err := n.ledger.write(); err != nil {
		n.log.Error("cannot note what is known of the dataset's ledger, and answers nothing; make room, and let this process write to the state folder", zap.Error(err))
	}
}
