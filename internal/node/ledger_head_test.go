package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// chain is a ledger of so many entries. Those of another mark are others from the second on.
func chain(t testing.TB, entries int, mark string) (all []ledger.Entry) {
	t.Helper()
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	plan := privacy.Plan{{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 20}, Count: 9}}
	for i := range entries {
		e := ledger.Entry{Type: ledger.EntryRun, Dataset: "d", Day: "2026-01-01", Run: fmt.Sprint(mark, i),
			Opening: ledger.Opening{Budget: &budget, Plan: plan}}
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

// endOf names the last entry, nil where nothing can have been spent under it.
func endOf(entries []ledger.Entry) *conclavev1.LedgerHead {
	if len(entries) <= 1 {
		return nil
	}
	last := entries[len(entries)-1]
	hash, _ := hex.DecodeString(last.Hash)
	return &conclavev1.LedgerHead{Seq: last.Seq, Hash: hash}
}

// What a node is told of the ledger, before its welcome and after, it says when it comes back,
// as the same process or as another one.
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
	j.entries(all[2:4]) // known ones are passed over
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

// What a node was told is written within a second, also when nothing else comes: who is
// killed forgets no more.
func TestMarksAreWrittenWithinASecond(t *testing.T) {
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

// While a node cannot write down what it was told it answers nothing, and it answers again
// when it can.
func TestANodeThatCannotRememberAnswersNothing(t *testing.T) {
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
	if log.FilterMessageSnippet("what is known of the dataset's ledger").Len() == 0 {
		t.Error("the log does not say it")
	}
	testkit.Must(t, os.Mkdir(filepath.Join(c.State, "gone"), 0o700))
	testkit.Eventually(t, "another try", func() bool { return n.ledger.saveError() == nil })
	j.votes(voteRound("r", 1))
}

// A node does not work for an aggregator whose ledger is not the one that it answered under, and
// remembers no entry that is not chained to what it knows: nobody can lock it out by naming one.
func TestANodeLeavesAnotherLedger(t *testing.T) {
	far := &conclavev1.LedgerHead{Seq: 1 << 62, Hash: bytes.Repeat([]byte{7}, 32)}
	ours, others := chain(t, 5, "a"), chain(t, 8, "b")
	for name, x := range map[string]struct {
		sent []ledger.Entry
		end  *conclavev1.LedgerHead
	}{
		"shorter":             {nil, endOf(ours[:4])},
		"another":             {nil, endOf(others[:5])},
		"longer and another":  {others[5:], endOf(others)},
		"an end without":      {nil, far},
		"no end":              {nil, nil},
		"a gap":               {chain(t, 8, "a")[6:], endOf(chain(t, 8, "a"))},
		"entries without end": {chain(t, 8, "a")[5:], endOf(ours)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAggregator(t)
			c := f.config(2)
			f.setLedger(ours)
			table := questiontest.SmallTable(t, 40, 1)
			stop, _ := run(t, start(t, c, table))
			f.next().votes(voteRound("r", 0))
			testkit.Must(t, stop())
			ended := make(chan error, 1)
			n := start(t, c, table)
			go func() { ended <- n.Run(t.Context()) }()
			j := testkit.Receive(t, f.joined)
			if len(x.sent) > 0 {
				j.entries(x.sent)
			}
			j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Welcome{
				Welcome: &conclavev1.Welcome{Aggregator: "a", Ledger: x.end},
			}})
			err := testkit.Receive(t, ended)
			if !errors.Is(err, errWentBack) || !strings.Contains(err.Error(), "entry 5") &&
				!strings.Contains(err.Error(), "entry 8") || !strings.Contains(err.Error(), "restore a newer backup") {
				t.Errorf("Run ended with %v", err)
			}
			site, err := NewSite(c, table, kinds.All())
			testkit.Must(t, err)
			if got := site.Hello().GetLedger(); got.GetSeq() > 8 {
				t.Errorf("the node remembers %v", got)
			}
		})
	}
}
