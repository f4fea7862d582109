package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func headAt(seq uint64, hash byte) *conclavev1.LedgerHead {
	return &conclavev1.LedgerHead{Seq: seq, Hash: bytes.Repeat([]byte{hash}, 32)}
}

// What a node is told of the ledger, by a welcome and by rounds, it says when it comes back,
// as the same process or as another one.
func TestANodeRemembersTheLedger(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	table := questiontest.SmallTable(t, 40, 1)
	stop, _ := run(t, start(t, c, table))
	f.setLedger(headAt(3, 3))
	said := func(want *conclavev1.LedgerHead) *join {
		t.Helper()
		j := f.next()
		if got := j.hello.GetLedger(); !proto.Equal(got, want) {
			t.Fatalf("the hello says %v, want %v", got, want)
		}
		return j
	}
	j := said(nil)
	ask := func(number uint64, m *conclavev1.LedgerHead) {
		t.Helper()
		r := voteRound("r", number)
		for i, p := range partsOf(t, r, 300) {
			response := &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}}
			if i == 0 {
				response.Terms = &conclavev1.RoundTerms{Ledger: m}
			}
			j.send(response)
		}
		if m := j.reply(); m.GetVotes() == nil {
			t.Fatalf("round %d was answered with %v", number, m)
		}
	}
	ask(0, headAt(5, 5))
	ask(1, headAt(4, 4)) // of rounds that are asked side by side one may be behind
	ask(2, nil)          // from an aggregator that tells nothing
	ask(3, &conclavev1.LedgerHead{Seq: 9, Hash: []byte("short")})
	j.leave <- status.Error(codes.Unavailable, "gone")
	f.setLedger(headAt(5, 5))
	j = said(headAt(5, 5))
	ask(4, headAt(6, 6))
	testkit.Must(t, stop())
	site, err := NewSite(c, table, kinds.All())
	testkit.Must(t, err)
	if got := site.Hello().GetLedger(); !proto.Equal(got, headAt(6, 6)) {
		t.Errorf("the site says %v", got)
	}
	f.setLedger(nil) // an aggregator of before
	stop, _ = run(t, start(t, c, table))
	said(headAt(6, 6)).votes(voteRound("r", 5))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What a node was told is written within a second, also when nothing else comes: who is
// killed forgets no more.
func TestMarksAreWrittenWithinASecond(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	run(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
	f.setLedger(headAt(3, 3))
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
	j.withdraw(&conclavev1.Withdraw{Run: "r", Over: true, Ledger: headAt(7, 7)})
	await(7)
}

// While a node cannot write down what it was told it answers nothing, and it answers again
// when it can.
func TestANodeThatCannotRememberAnswersNothing(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	n := start(t, c, questiontest.SmallTable(t, 40, 1))
	n.ledger.path = ledgerHeadPath(filepath.Join(c.State, "gone"))
	_, log := run(t, n)
	f.setLedger(headAt(3, 3))
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

// A node does not work for an aggregator whose ledger is not the one that it answered under.
func TestANodeLeavesALedgerThatWentBack(t *testing.T) {
	for name, last := range map[string]*conclavev1.LedgerHead{"shorter": headAt(4, 4), "another": headAt(5, 6)} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAggregator(t)
			c := f.config(2)
			f.setLedger(headAt(5, 5))
			stop, _ := run(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
			f.next().votes(voteRound("r", 0))
			testkit.Must(t, stop())
			f.setLedger(last)
			ended := make(chan error, 1)
			n := start(t, c, questiontest.SmallTable(t, 40, 1))
			go func() { ended <- n.Run(t.Context()) }()
			f.next()
			select {
			case err := <-ended:
				if !errors.Is(err, errWentBack) || !strings.Contains(err.Error(), "entry 5") ||
					!strings.Contains(err.Error(), "restore a newer backup") {
					t.Errorf("Run ended with %v", err)
				}
			case <-time.After(testkit.Patience):
				t.Fatal("the node goes on")
			}
		})
	}
}

// A file that names nothing is not taken for none.
func TestADamagedMarkIsRefused(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	testkit.Must(t, os.MkdirAll(c.State, 0o700))
	for _, text := range []string{"", "{}\n", `{"seq":5,"hash":"x"}`,
		`{"seq":5,"hash":"` + strings.Repeat("0", 64) + `"}}`} {
		testkit.Must(t, os.WriteFile(ledgerHeadPath(c.State), []byte(text), 0o600))
		if _, err := NewSite(c, questiontest.SmallTable(t, 40, 1), kinds.All()); err == nil ||
			!strings.Contains(err.Error(), "dataset-ledger.head") || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
