package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// chain is a ledger with this many entries. Ledgers with different marks differ from the second entry on.
func chain(t testing.TB, entries int, mark string) (all []ledger.Entry) {
	t.Helper()
	return grow(t, nil, entries, mark)
}

// grow extends another ledger to this many entries.
func grow(t testing.TB, from []ledger.Entry, entries int, mark string) (all []ledger.Entry) {
	t.Helper()
	all = slices.Clone(from)
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	plan := privacy.Plan{{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 20}, Count: 9}}
	facts := &ledger.Facts{Student: "s", Pipeline: "p", SchemaSHA256: strings.Repeat("ab", 32), Teachers: 1}
	for i := len(from); i < entries; i++ {
		e := ledger.Entry{Type: ledger.EntryRun, Dataset: "d", Day: "2026-01-01", Run: fmt.Sprint(mark, i),
			Opening: ledger.Opening{Budget: &budget, Plan: plan, Facts: facts}}
		if i == 0 {
			e = ledger.Entry{Type: ledger.EntryOpen, Dataset: "d", Day: "2026-01-01",
				Opening: ledger.Opening{Budget: &budget, Unit: "record", Neighbouring: "add-or-remove-one-unit"}}
		}
		var previous *ledger.Entry
		if i > 0 {
			previous = &all[i-1]
		}
		testkit.Must(t, e.Seal(previous))
		all = append(all, e)
	}
	return all
}

// endOf is the last entry, nil if nothing can have been spent under it.
func endOf(entries []ledger.Entry) *conclavev1.LedgerHead {
	if len(entries) <= 1 {
		return nil
	}
	last := entries[len(entries)-1]
	hash, _ := hex.DecodeString(last.Hash)
	return &conclavev1.LedgerHead{Seq: last.Seq, Hash: hash}
}

// A node repeats the ledger head that it received, before or after its welcome, when it returns as the same or as
// another process.
func TestANodeRemembersTheLedger(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	table := questiontest.SmallTable(t, 40, 1)
	all := chain(t, 9, "a")
	f.setLedger(all[:3])
	stop, _ := run(t, start(t, c, table))
	said := func(want *conclavev1.LedgerHead) *join {
		t.Helper()
		j := f.next()
		if got := j.hello.GetLedger(); !proto.Equal(got, want) {
			t.Fatalf("the hello says %v, want %v", got, want)
		}
		return j
	}
	j := said(nil)
	j.entries(all[3:5])
	j.entries(all[2:4]) // known ones are skipped
	j.votes(voteRound("r", 0))
	j.leave <- status.Error(codes.Unavailable, "gone")
	f.setLedger(all[:6])
	j = said(endOf(all[:5]))
	j.entries(all[6:7])
	j.votes(voteRound("r", 1))
	testkit.Must(t, stop())
	site, err := NewSite(c, table, kinds.All())
	testkit.Must(t, err)
	if got := site.Hello().GetLedger(); !proto.Equal(got, endOf(all[:7])) {
		t.Errorf("the site says %v", got)
	}
}

// A received head is written within a second, also if nothing else comes, so a killed node forgets no more than that.
func TestMarksAreWrittenWithinASecond(t *testing.T) {
	t.Parallel()
	f := newFakeAggregator(t)
	c := f.config(2)
	all := chain(t, 7, "a")
	f.setLedger(all[:3])
	run(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
	j := f.next()
	await := func(seq uint64) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("that entry %d is stored", seq), func() bool {
			m, err := loadLedgerHead(ledgerHeadPath(c.State))
			testkit.Must(t, err)
			return m.head.Seq == seq
		})
	}
	await(3)
	j.entries(all[3:])
	await(7)
}

// The receiver and the timer write the head at the same time, and neither fails.
func TestMarksAreWrittenOneAtATime(t *testing.T) {
	h := &ledgerHead{path: ledgerHeadPath(t.TempDir())}
	for seq := range uint64(50) {
		h.head = sitepolicy.LedgerHead{Seq: seq + 2, Hash: strings.Repeat("ab", 32)}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := h.write(); err != nil {
					t.Errorf("entry %d: %v", seq+2, err)
				}
			})
		}
		both.Wait()
	}
	stored, err := sitepolicy.ReadLedgerHead(h.path)
	testkit.Must(t, err)
	testkit.Same(t, "", &h.head, stored)
}

// While a node cannot write the head it answers nothing; it answers again once it can.
func TestANodeThatCannotRememberAnswersNothing(t *testing.T) {
	t.Parallel()
	f := newFakeAggregator(t)
	c := f.config(2)
	n := start(t, c, questiontest.SmallTable(t, 40, 1))
	n.ledger.path = ledgerHeadPath(filepath.Join(c.State, "gone"))
	f.setLedger(chain(t, 3, "a"))
	_, log := run(t, n)
	j := f.next()
	j.ask(voteRound("r", 0))
	if m := j.reply(); m.GetRefusal() == nil || m.GetRefusal().Reason != question.ErrState.Error() {
		t.Errorf("the round was answered with %v", m)
	}
	if log.FilterMessageSnippet("cannot store the ledger head").Len() == 0 {
		t.Error("the log does not say it")
	}
	testkit.Must(t, os.Mkdir(filepath.Join(c.State, "gone"), 0o700))
	testkit.Eventually(t, "another try", func() bool { return n.ledger.saveError() == nil })
	j.votes(voteRound("r", 1))
}

// When a site accepts an older ledger its node draws new samples, and repeated questions are charged again.
func TestAcceptedLedgersForgetSums(t *testing.T) {
	c := smallConfig(t, 2)
	start(t, c, questiontest.SmallTable(t, 40, 1))
	sum := filepath.Join(c.State, "run-r.sum")
	testkit.Must(t, os.WriteFile(sum, []byte("kept"), 0o600))
	head := sitepolicy.LedgerHead{Seq: 9, Hash: strings.Repeat("ab", 32)}
	testkit.Must(t, head.Write(ledgerHeadPath(c.State), (*os.File).Sync))
	older := sitepolicy.LedgerHead{Seq: 4, Hash: strings.Repeat("cd", 32)}
	known, err := AcceptLedger(c, nil, older, sitepolicy.Decision{By: "ann"})
	testkit.Must(t, err)
	if _, err := os.Stat(sum); known != head || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("accepted in place of %v, and the last sum: %v", known, err)
	}
}

// A node stays away from a ledger that lacks a chained entry until its site accepts that ledger. From then on the
// node follows it and does not miss the entry.
func TestASiteGoesOnAfterARestoreThatWasMeant(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	table := questiontest.SmallTable(t, 40, 1)
	known := chain(t, 6, "a")
	restored := grow(t, known[:4], 9, "b") // it continued since
	f.setLedger(known)
	stop, _ := run(t, start(t, c, table))
	f.next().votes(voteRound("r", 0))
	testkit.Must(t, stop())

	f.setLedger(restored)
	_, refused := begin(t, start(t, c, table))
	j := testkit.Receive(t, f.joined)
	_ = j.stream.Send(linesOf(restored[6:])) // these may already end the node
	_ = j.stream.Send(welcome(endOf(restored)))
	if err := testkit.Receive(t, refused); !errors.Is(err, errWentBack) ||
		!strings.Contains(err.Error(), "accept-ledger") {
		t.Fatalf("Run ended with %v", err)
	}
	entry := func(of []ledger.Entry, seq int) sitepolicy.LedgerHead {
		return sitepolicy.LedgerHead{Seq: uint64(seq), Hash: of[seq-1].Hash}
	}
	for _, head := range []sitepolicy.LedgerHead{
		entry(known, 6), entry(restored, 7), {Seq: 1 << 62, Hash: strings.Repeat("ab", 32)},
	} {
		if _, err := AcceptLedger(c, nil, head, sitepolicy.Decision{By: "ann"}); !errors.Is(err, ErrNotOlder) {
			t.Errorf("accepting entry %d gave %v", head.Seq, err)
		}
	}
	// A wrong number can be corrected, up to the entry that the node knew.
	for _, head := range []sitepolicy.LedgerHead{{Seq: 2, Hash: strings.Repeat("ab", 32)}, entry(restored, 6)} {
		_, err := AcceptLedger(c, nil, head, sitepolicy.Decision{By: "ann"})
		testkit.Must(t, err)
	}
	stop, _ = run(t, start(t, c, table))
	j = f.next()
	if got := j.hello.GetLedger(); !proto.Equal(got, endOf(restored[:6])) {
		t.Errorf("the node remembers %v", got)
	}
	j.votes(voteRound("s", 0))
	f.setLedger(grow(t, restored, 11, "c"))
	j.leave <- status.Error(codes.Unavailable, "gone")
	f.next().votes(voteRound("s", 1))
	testkit.Must(t, stop())
}

// A node does not work for an aggregator with a different ledger, and remembers no entry that is not chained to what
// it knows, so nobody can lock it out by naming one. A false welcome and false entries, at any time, end it and leave
// nothing behind: after a restart it works for the true ledger.
func TestANodeLeavesAnotherLedger(t *testing.T) {
	t.Parallel()
	ours, others, longer := chain(t, 5, "a"), chain(t, 8, "b"), chain(t, 8, "a")
	lines := func(all ...[]byte) []*conclavev1.WorkResponse {
		return []*conclavev1.WorkResponse{{Message: &conclavev1.WorkResponse_Entries{
			Entries: &conclavev1.LedgerEntries{Lines: all},
		}}}
	}
	end := func(seq uint64, hash []byte) []*conclavev1.WorkResponse {
		return []*conclavev1.WorkResponse{welcome(&conclavev1.LedgerHead{Seq: seq, Hash: hash})}
	}
	// far is an entry that claims to follow entry 2^62 - 1, with a matching hash.
	far := ours[4]
	last := ours[3]
	last.Seq = 1<<62 - 1
	testkit.Must(t, far.Seal(&last))
	farLine, err := far.Canonical()
	testkit.Must(t, err)
	hash := bytes.Repeat([]byte{7}, 32)
	for name, c := range map[string]struct {
		sent  []*conclavev1.WorkResponse
		knows []ledger.Entry // known afterwards; nil for ours
	}{
		"shorter":              {[]*conclavev1.WorkResponse{welcome(endOf(ours[:4]))}, nil},
		"another":              {[]*conclavev1.WorkResponse{welcome(endOf(others[:5]))}, nil},
		"longer and another":   {[]*conclavev1.WorkResponse{linesOf(others[5:]), welcome(endOf(others))}, nil},
		"a gap":                {[]*conclavev1.WorkResponse{linesOf(longer[6:]), welcome(endOf(longer))}, nil},
		"entries without end":  {[]*conclavev1.WorkResponse{linesOf(longer[5:]), welcome(endOf(ours))}, longer},
		"no end":               {[]*conclavev1.WorkResponse{welcome(nil)}, nil},
		"a far end":            {end(1<<62, hash), nil},
		"2^64 - 1":             {end(1<<64-1, hash), nil},
		"a hash of 3 MiB":      {end(5, make([]byte, 3<<20)), nil},
		"no hash":              {end(5, nil), nil},
		"another hash":         {end(5, hash), nil},
		"a far entry":          {lines(farLine), nil},
		"3 MiB of an entry":    {lines(bytes.Repeat([]byte{'['}, 3<<20)), nil},
		"an entry with a tail": {lines(append(bytes.Clone(farLine), "\n{}"...)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAggregator(t)
			config := f.config(2)
			f.setLedger(ours)
			table := questiontest.SmallTable(t, 40, 1)
			_, ended := begin(t, start(t, config, table))
			j := f.next()
			j.votes(voteRound("r", 0))
			for _, m := range c.sent {
				_ = j.stream.Send(m) // the first may already end the node
			}
			if c.knows == nil {
				c.knows = ours
			}
			if err := testkit.Receive(t, ended); !errors.Is(err, errWentBack) || len(err.Error()) > 2000 ||
				!strings.Contains(err.Error(), fmt.Sprintf("entry %d ", len(c.knows))) ||
				!strings.Contains(err.Error(), "restore a newer backup") {
				t.Errorf("Run ended with %.500v", err)
			}
			f.setLedger(c.knows)
			stop, _ := run(t, start(t, config, table))
			j = f.next()
			if got := j.hello.GetLedger(); !proto.Equal(got, endOf(c.knows)) {
				t.Errorf("the node remembers %.500v", got)
			}
			j.votes(voteRound("r", 1))
			testkit.Must(t, stop())
		})
	}
}

// The end of a run is not lost if it arrives while the site's ledger cannot be written: the stream ends, and the next
// one repeats the entry.
func TestTheEndOfARunIsNotLost(t *testing.T) {
	c := policed(t, smallConfig(t, 4), lenient)
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	terms := termsFor(t, n, voteRound("a1", 0), 50, nil)
	if m := askUnder(t, n, voteRound("a1", 0), terms); m.GetVotes() == nil {
		t.Fatal(m)
	}
	all := chain(t, 2, "a") // opens run a1
	end := ledger.Entry{Type: ledger.EntryClose, Dataset: "d", Day: "2026-01-01", Run: "a1"}
	testkit.Must(t, end.Seal(&all[1]))
	m := linesOf(append(all, end))
	other := filepath.Join(c.State, "run-a1.sum.sum") // of run a1.sum
	testkit.Must(t, os.WriteFile(other, nil, 0o600))
	before := n.ledger.hello()
	testkit.Must(t, os.Rename(c.LedgerPath(), c.LedgerPath()+".away"))
	err := n.dispatch(m, &assembly{}, newInbox())
	if !errors.Is(err, sitepolicy.ErrLedger) || errors.Is(err, errWentBack) {
		t.Errorf("without the site's ledger: %v", err)
	}
	if got := n.ledger.hello(); !proto.Equal(got, before) {
		t.Errorf("the node would have the entries after %v, want %v", got, before)
	}
	testkit.Must(t, os.Rename(c.LedgerPath()+".away", c.LedgerPath()))
	if !exists(c, "run-a1.safetensors") {
		t.Error("the teachers of a run that goes on are gone")
	}
	testkit.Must(t, n.dispatch(m, &assembly{}, newInbox()))
	if exists(c, "run-a1.safetensors") || !exists(c, filepath.Base(other)) {
		t.Error("the teachers of a run that ended stay, or what is kept of another run is gone")
	}
	again := askUnder(t, n, voteRound("a1", 1), terms)
	if reason := again.GetRefusal().GetReason(); !strings.Contains(reason, "has ended") {
		t.Errorf("after the end of its run another question gets %v", again)
	}
}
