package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/statelock"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ledgerHead is the newest ledger entry that a node received. Remembering it lets nodes detect a ledger that was
// restored from an old backup or started anew. It is written within a second, and when a stream ends. While it cannot
// be written, the node answers nothing.
type ledgerHead struct {
	path    string
	writing sync.Mutex // of the file, and taken before mu

	mu      sync.Mutex
	head    sitepolicy.LedgerHead
	written sitepolicy.LedgerHead
	err     error // of the last attempt to write
}

// headEvery is how often a new head is written: rounds may come by the hundred.
const headEvery = time.Second

// errWentBack marks an aggregator whose ledger is not the one that the node answered under.
var errWentBack = errors.New("the ledger went back")

// givenUp is the file name suffix for the newest entry that a site gave up to accept an older ledger.
const givenUp = ".before"

func ledgerHeadPath(dir string) string { return filepath.Join(dir, "dataset-ledger.head") }

// loadLedgerHead loads the head from earlier starts, or an empty one.
func loadLedgerHead(path string) (*ledgerHead, error) {
	head, err := sitepolicy.ReadLedgerHead(path)
	if err != nil {
		return nil, fmt.Errorf("the stored ledger head: %w", err)
	}
	h := &ledgerHead{path: path}
	if head != nil {
		h.head, h.written = *head, *head
	}
	return h, nil
}

// hello is the head as sent to the aggregator, nil if there is none. The first entry of a ledger spends nothing and
// is omitted: a ledger restarted before the first run is equally valid.
func (h *ledgerHead) hello() *conclavev1.LedgerHead {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.head.Seq <= 1 {
		h.head = sitepolicy.LedgerHead{}
	}
	hash, err := hex.DecodeString(h.head.Hash)
	if h.head.Seq == 0 || err != nil {
		return nil
	}
	return &conclavev1.LedgerHead{Seq: h.head.Seq, Hash: hash}
}

// check refuses a ledger that ends before the remembered head, has another entry there, or names a head that the sent
// entries do not lead to.
func (h *ledgerHead) check(last *conclavev1.LedgerHead) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.GetSeq() <= 1 && h.head.Seq <= 1 {
		return nil
	}
	if last.GetSeq() != h.head.Seq || hex.EncodeToString(last.GetHash()) != h.head.Hash {
		return h.other(fmt.Sprintf("the aggregator's ends with entry %d (%.32x)", last.GetSeq(), last.GetHash()))
	}
	return nil
}

// follow takes in the ledger entries after the remembered head: each must be chained to the one before. So nobody can
// make the node remember an entry that no ledger has, short of a whole false ledger. Known entries are skipped. end
// is called with the closed runs; if it fails nothing is taken in, so that the next stream repeats the entries.
func (h *ledgerHead) follow(dataset string, lines [][]byte, end func(runs []string) error) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head := h.head
	var closed []string
	for _, line := range lines {
		if seq, err := ledger.SeqOf(line); err == nil && seq <= head.Seq {
			continue
		}
		e, wrong := ledger.ParseNext(line, head.Seq, head.Hash)
		if wrong == nil && e.Dataset != dataset {
			wrong = fmt.Errorf("ledger entry %d is of dataset %q", e.Seq, e.Dataset)
		}
		if wrong != nil {
			err = wrong
			break
		}
		head = sitepolicy.LedgerHead{Seq: e.Seq, Hash: e.Hash}
		if e.Type == ledger.EntryClose {
			closed = append(closed, e.Run)
		}
	}
	if len(closed) > 0 {
		if err := end(closed); err != nil {
			return fmt.Errorf("record that runs have ended: %w", err)
		}
	}
	h.head = head
	if err != nil {
		return h.other(err.Error())
	}
	return nil
}

// endsWith reports whether an entry is the newest that the node received.
func (h *ledgerHead) endsWith(last *conclavev1.LedgerHead) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.head.Seq > 0 && last.GetSeq() == h.head.Seq && hex.EncodeToString(last.GetHash()) == h.head.Hash
}

// other is the error of a ledger that differs from the remembered one. Callers hold h.mu.
func (h *ledgerHead) other(how string) error {
	return fmt.Errorf("%w: it does not contain entry %d (%s), which this node received: %s. Later spending would be "+
		"repeated: its operator must restore a newer backup. If an older one was restored on purpose, accept it with "+
		"`teacher accept-ledger`", errWentBack, h.head.Seq, h.head.Hash, how)
}

// write writes a new head. The receiver and the timer may both do so at once.
func (h *ledgerHead) write() error {
	h.writing.Lock()
	defer h.writing.Unlock()
	h.mu.Lock()
	head, written := h.head, h.written
	h.mu.Unlock()
	if head == written || head.Seq <= 1 {
		return nil
	}
	err := head.Write(h.path, (*os.File).Sync) // takes as long as the disk
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err = err; err == nil {
		h.written = head
	}
	return err
}

// saveError is why the last write failed, or nil.
func (h *ledgerHead) saveError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return fmt.Errorf("%w: the stored ledger head: %w", question.ErrState, h.err)
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

// save writes a new head, and logs a failure.
func (h *ledgerHead) save(log *zap.Logger) {
	if err := h.write(); err != nil {
		log.Error("cannot store the ledger head, and answers nothing; free some space, and make the state folder "+
			"writable", zap.Error(err))
	}
}

// ErrNotOlder says that a site tried to accept a ledger by an entry that no older ledger has.
var ErrNotOlder = errors.New("this is not an entry of an older ledger")

// acceptable checks that a site that knows one entry may accept another in its place. A ledger that went back has an
// earlier entry at its head; if it has continued since, an earlier entry works, too. The first entry accepts a ledger
// that starts anew. before is the newest entry ever given up, so that a wrong number can be corrected.
func acceptable(head, known sitepolicy.LedgerHead, before *sitepolicy.LedgerHead) error {
	newest := known
	if before != nil && before.Seq > newest.Seq {
		newest = *before
	}
	switch {
	case head == known:
		return fmt.Errorf("%w: this node already has entry %d (%s), and there is nothing to accept",
			ErrNotOlder, head.Seq, head.Hash)
	case head.Seq > newest.Seq:
		return fmt.Errorf("%w: entry %d is newer than entry %d, the newest that this node received; give the last "+
			"entry of the backup, or another entry of the restored ledger up to number "+
			"%d", ErrNotOlder, head.Seq, newest.Seq,
			newest.Seq)
	}
	return nil
}

// ErrNothingKnown says that a node remembers no ledger, and so accepts any.
var ErrNothingKnown = errors.New("this node has not received a ledger yet, and there is nothing to accept")

// AcceptLedger makes a node's site accept an older ledger, which ends with this entry or continues from it. It
// returns the entry that the node remembered. Charges in the site's own ledger stay, and repeated questions are
// charged again, because their answers are drawn anew. A node without a policy has a nil enforcer and charges
// nothing. by is who decides, and the signature. It refuses while the node runs.
func AcceptLedger(
	c Config, enforcer *sitepolicy.Enforcer, head sitepolicy.LedgerHead, by sitepolicy.Decision,
) (known sitepolicy.LedgerHead, err error) {
	path := ledgerHeadPath(c.State)
	if _, missing := os.Stat(c.State); missing == nil {
		release, err := statelock.Take(c.State)
		if err != nil {
			return known, err
		}
		defer release()
	}
	was, err := sitepolicy.ReadLedgerHead(path)
	if err != nil {
		return known, err
	}
	if was == nil {
		return known, ErrNothingKnown
	}
	before, err := sitepolicy.ReadLedgerHead(path + givenUp)
	signedAnew := head == *was && enforcer != nil && enforcer.Accepted() != nil
	if err == nil && !signedAnew {
		err = acceptable(head, *was, before)
	}
	if err != nil {
		return *was, err
	}
	if before == nil || before.Seq < was.Seq {
		if err := was.Write(path+givenUp, (*os.File).Sync); err != nil {
			return *was, err
		}
	}
	if enforcer != nil {
		if err := enforcer.AcceptLedger(head, by); err != nil {
			return *was, err
		}
	}
	trail, err := auditlog.Open(c.AuditLog, string(certs.RoleNode), c.Site+"/"+c.Node, zap.NewNop())
	if err != nil {
		return *was, err
	}
	err = trail.Write(auditlog.Entry{
		Event: auditlog.LedgerAccepted, Dataset: c.Dataset, Charge: auditlog.Charge{
			LedgerSeq: head.Seq, LedgerHash: head.Hash,
		},
		Reason: fmt.Sprintf("by %s, in place of entry %d (%s)", by.By, was.Seq, was.Hash),
	})
	if err = errors.Join(err, trail.Close()); err != nil {
		return *was, err
	}
	if err := question.ForgetSums(c.State); err != nil {
		return *was, fmt.Errorf("remove the last answers: %w; make the state folder writable", err)
	}
	return *was, head.Write(path, (*os.File).Sync)
}
