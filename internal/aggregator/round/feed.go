package round

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/ledger"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A message has up to this many ledger entries and bytes, except that an entry may exceed the bytes alone. Most
// entries have some hundred bytes; a run's entry is as large as its plan, which a student chooses.
const (
	feedPage  = 250
	feedBytes = 1 << 20
)

// feed sends the nodes of a dataset its new ledger entries in order. Nodes remember the newest one, so each of them
// detects an etcd that was restored from an older backup.
//
// An entry is in the streams of all connected nodes before the student gets an answer. If the entry cannot be read,
// the student gets none. Nobody waits until nodes have read it: a stalled node would delay all rounds.
type feed struct {
	mu        sync.Mutex
	told      uint64 // the number of the newest entry sent to the followers
	followers map[*peer.Node]bool
}

// Send is how a node is sent a message, in order.
type Send func(peer.Encoded) error

// TellAll sends a dataset's ledger entries after one number up to another, page by page, as far as they exist. It
// returns the number of the last.
func (rs *Rounds) TellAll(ctx context.Context, d *Dataset, after, upTo uint64, send Send) (last uint64, err error) {
	for last = after; last < upTo; {
		lines, err := rs.Store.Entries(ctx, d.Record.Name, last, int(min(feedPage, upTo-last)))
		if err != nil || len(lines) == 0 {
			return last, err
		}
		lines = firstOf(lines, feedBytes)
		m, err := encodeEntries(lines)
		if err == nil {
			err = send(m)
		}
		if err != nil {
			return last, err
		}
		last += uint64(len(lines))
	}
	return last, nil
}

// Follow sends a node the entries after the one it last received, and from now on each new one.
func (rs *Rounds) Follow(ctx context.Context, d *Dataset, n *peer.Node, upTo uint64) error {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	if d.feed.told > upTo {
		send := func(m peer.Encoded) error { n.Send(m); return nil }
		if _, err := rs.TellAll(ctx, d, upTo, d.feed.told, send); err != nil {
			return err
		}
	}
	d.feed.followers[n] = true
	return nil
}

// tellOf sends the followers all entries up to a release's entry. If it fails, the release is not returned; it stays
// charged and stored, and asking it again repeats the attempt.
func (rs *Rounds) tellOf(ctx context.Context, d *Dataset, key payload.Key, paid ledger.Entry) error {
	err := rs.tell(ctx, d, &paid)
	if leading := rs.Lifetime.Leading(); err != nil && leading.Err() != nil {
		err = context.Cause(leading)
	}
	if err != nil {
		return fmt.Errorf("round %d of run %q is charged and stored, but nodes have not yet received the ledger up "+
			"to entry %d; ask again: %w", key.Number, key.Run, paid.Seq, err)
	}
	return nil
}

// tell sends the followers all entries that they lack, including newest, which is nil if the last one is unknown.
func (rs *Rounds) tell(ctx context.Context, d *Dataset, newest *ledger.Entry) error {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	if newest != nil && newest.Seq <= d.feed.told {
		return nil
	}
	if newest != nil && newest.Seq == d.feed.told+1 {
		if line, err := newest.Canonical(); err == nil {
			if m, err := encodeEntries([][]byte{line}); err == nil {
				_ = d.feed.broadcast(m)
				d.feed.told++
				return nil
			}
		}
	}
	err := rs.tellRest(ctx, d, math.MaxUint64)
	if err == nil && newest != nil && d.feed.told < newest.Seq {
		err = fmt.Errorf("%w: the ledger of dataset %q ends with entry %d; restore etcd from a backup",
			coordinator.ErrCorrupt, d.Record.Name, d.feed.told)
	}
	return err
}

// tellRest sends the followers the entries up to a number that they lack. Callers hold the feed's lock.
func (rs *Rounds) tellRest(ctx context.Context, d *Dataset, upTo uint64) (err error) {
	d.feed.told, err = rs.TellAll(ctx, d, d.feed.told, upTo, d.feed.broadcast)
	return err
}

// broadcast sends a message to all followers. Callers hold f.mu.
func (f *feed) broadcast(m peer.Encoded) error {
	nodes := make([]*peer.Node, 0, len(f.followers))
	for n := range f.followers {
		nodes = append(nodes, n)
	}
	peer.Tell(nodes, m)
	return nil
}

// unfollow drops a node whose stream is over.
func (f *feed) unfollow(n *peer.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.followers, n)
}

// firstOf returns the first lines with at most this many bytes together, but at least one line.
func firstOf(lines [][]byte, most int) [][]byte {
	size := 0
	for i, line := range lines {
		if size += len(line); size > most && i > 0 {
			return lines[:i]
		}
	}
	return lines
}

func encodeEntries(lines [][]byte) (peer.Encoded, error) {
	return peer.Encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Entries{
		Entries: &conclavev1.LedgerEntries{Lines: lines},
	}})
}
