package aggregator

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A release is not returned if nodes cannot be sent its entry. Asked again, also of another leader, it is the same,
// charged once, and nodes have its entry before the student has the release.
func TestNoReleaseComesBeforeItsEntry(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	u := c.tap(t)
	student, d := c.student(t), c.dataset()
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	spec, _ := student.open(t, d, nil)
	told := ledger.Entry{}
	next := func(n *testNode) {
		t.Helper()
		var err error
		told, err = ledger.ParseNext(testkit.Receive(t, n.entries), told.Seq, told.Hash)
		testkit.Must(t, err)
	}
	next(node) // the dataset's entry; the run's comes with its first release
	stored := func(round uint64) (release []byte, paid ledger.Entry) {
		t.Helper()
		release, paid, found, err := c.server.store.Release(testkit.Within(t), spec.Name, round)
		if err != nil || !found {
			t.Fatalf("round %d is stored: %v, %v", round, found, err)
		}
		return release, paid
	}
	same := func(round uint64, r *conclavev1.Release, before []byte) {
		t.Helper()
		if now, paid := stored(round); string(now) != string(before) || r.GetLedgerHash() != paid.Hash ||
			r.GetVotes() == nil || told.Hash != paid.Hash {
			t.Errorf("the answer %v, paid for by entry %d; nodes were told up to entry %d", r, paid.Seq, told.Seq)
		}
	}

	u.away.Store(true)
	for range 2 {
		student.refused(t, roundtest.VoteRound(spec.Name, 0, 2), codes.Unavailable, "charged and stored",
			"ledger up to entry 4", "ask again")
	}
	before, _ := stored(0)
	if len(node.entries) != 0 {
		t.Error("nodes were told of entries that cannot be read")
	}
	u.away.Store(false)
	r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2))
	for range 3 { // the run, its roster, the release
		next(node)
	}
	same(0, r, before)

	// Another run's entry comes between the last one sent and the next release.
	student.open(t, spec.Dataset, func(s *conclavev1.RunSpec) { s.Name = "other" })
	u.away.Store(true)
	student.refused(t, roundtest.VoteRound(spec.Name, 1, 2), codes.Unavailable, "ledger up to entry 6")
	before, _ = stored(1)
	node.leave()
	testkit.Must(t, c.stop())
	c.start(Options{})
	h := hello(spec.Dataset, "north", "a", 8)
	h.Ledger = headOf(told)
	back := c.node(t, h, roundtest.Silent)
	next(back)
	next(back)
	same(1, c.student(t).mustAsk(t, roundtest.VoteRound(spec.Name, 1, 2)), before)
	if entries := c.student(t).ledger(t, spec.Name); len(entries) != 2 || len(node.rounds) != 2 {
		t.Errorf("charged are %+v, and the node was asked %d times", entries, len(node.rounds))
	}
}
