package teacher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/sitepolicy"
)

// ledgerMark remembers the newest entry of the dataset's ledger that a node was told of, so
// that a ledger which was restored from an old backup, or begun anew, is found by those who
// answered under the one before. It is written at most once a second, and when a stream
// ends: a node that is killed may forget what it was told last.
type ledgerMark struct {
	path    string
	head    sitepolicy.Head
	written sitepolicy.Head
	at      time.Time
}

const markEvery = time.Second

// errWentBack marks an aggregator whose ledger is not the one that the node answered under.
var errWentBack = errors.New("the dataset's ledger went back")

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
	hash, err := hex.DecodeString(m.head.Hash)
	if m.head.Seq == 0 || err != nil {
		return nil
	}
	return &conclavev1.LedgerMark{Seq: m.head.Seq, Hash: hash}
}

// check refuses a ledger that ends before what is remembered, or has another entry there.
// Of what is behind it the aggregator knows, and refuses the hello.
func (m *ledgerMark) check(last *conclavev1.LedgerMark) error {
	if last == nil || m.head.Seq == 0 {
		return nil
	}
	if last.GetSeq() < m.head.Seq || last.GetSeq() == m.head.Seq && hex.EncodeToString(last.GetHash()) != m.head.Hash {
		return fmt.Errorf("%w: this node was told of entry %d (%.12s), and the aggregator's ledger ends with %d (%.12x). What was spent since would be spent again; "+
			"let the aggregator's operator restore a newer one", errWentBack, m.head.Seq, m.head.Hash, last.GetSeq(), last.GetHash())
	}
	return nil
}

// told takes in an entry that the aggregator names, and says whether it is to be written now.
func (m *ledgerMark) told(mark *conclavev1.LedgerMark, now time.Time) (due bool) {
	if mark.GetSeq() > m.head.Seq && len(mark.GetHash()) == sha256.Size {
		m.head = sitepolicy.Head{Seq: mark.GetSeq(), Hash: hex.EncodeToString(mark.GetHash())}
	}
	return m.head != m.written && now.Sub(m.at) >= markEvery
}

func (m *ledgerMark) write(now time.Time) error {
	if m.head == m.written {
		return nil
	}
	m.at = now
	if err := m.head.Write(m.path, (*os.File).Sync); err != nil {
		return err
	}
	m.written = m.head
	return nil
}

// toldOfLedger takes in what came down the stream about the ledger. A node that cannot write
// it down goes on: it remembers as long as it runs.
func (n *Node) toldOfLedger(mark *conclavev1.LedgerMark) {
	if n.ledger.told(mark, time.Now()) {
		n.keepMark()
	}
}

func (n *Node) keepMark() {
	if err := n.ledger.write(time.Now()); err != nil {
		n.log.Error("cannot note what is known of the dataset's ledger; make room, and let this process write to the state folder", zap.Error(err))
	}
}
