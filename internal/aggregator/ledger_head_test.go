package aggregator

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Nodes receive the ledger's entries. If a node knows an entry that the ledger lacks, the aggregator refuses the node
// by name before it stores anything.
func TestALedgerThatWentBackIsRefusedByItsNodes(t *testing.T) {
	t.Parallel()
	_, monitored := observed(t)
	c := newCluster(t, Options{}, monitored)
	d := c.dataset()
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	if first := node.greeting.GetLedger(); first != nil {
		t.Errorf("before the first run the welcome names entry %v", first)
	}
	var told []ledger.Entry // each chained to the previous one
	next := func(n *testNode) ledger.Entry {
		t.Helper()
		last := ledger.Entry{}
		if len(told) > 0 {
			last = told[len(told)-1]
		}
		e, err := ledger.ParseNext(testkit.Receive(t, n.entries), last.Seq, last.Hash)
		testkit.Must(t, err)
		told = append(told, e)
		return e
	}
	if first := next(node); first.Type != ledger.EntryOpen {
		t.Errorf("the first entry is %+v", first)
	}
	s := c.student(t)
	spec, _ := s.open(t, d, nil)
	for round := range uint64(3) {
		release := s.mustAsk(t, roundtest.VoteRound(spec.Name, round, 2))
		if round == 0 {
			next(node) // the run's own entry
			if e := next(node); len(e.Roster) != 1 || e.Roster[0].Site != "north" {
				t.Errorf("the roster is %+v", e)
			}
		}
		if e := next(node); e.Seq != release.GetLedgerSeq() || e.Hash != release.GetLedgerHash() {
			t.Errorf("round %d was charged by entry %d, and the node was told of %d", round, release.GetLedgerSeq(),
				e.Seq)
		}
	}
	closed, err := s.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	over := testkit.Receive(t, node.withdrawn)
	if e := next(node); !over.GetOver() || over.GetRun() != spec.Name || e.Hash != closed.GetLedgerHead() {
		t.Errorf("the end of the run is told as %v with entry %s, the ledger ends with %s", over, e.Hash,
			closed.GetLedgerHead())
	}
	node.leave()

	opened := headOf(told[1])
	client := rpc.NewTeacherServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "south")))
	for name, x := range map[string]struct {
		head *conclavev1.LedgerHead
		code codes.Code
		says string
	}{
		"later": {&conclavev1.LedgerHead{Seq: 1000, Hash: opened.GetHash()}, codes.FailedPrecondition,
			"the ledger went back"},
		"another": {&conclavev1.LedgerHead{Seq: 2, Hash: bytes.Repeat([]byte{7}, 32)}, codes.FailedPrecondition,
			"restore a newer backup"},
		"no number": {&conclavev1.LedgerHead{Hash: opened.GetHash()}, codes.InvalidArgument, "sent no valid ledger " +
			"entry"},
		"a short hash": {&conclavev1.LedgerHead{Seq: 2, Hash: opened.GetHash()[:31]}, codes.InvalidArgument,
			"sent no valid ledger entry"},
	} {
		h := hello(d, "south", "b", 4)
		h.Ledger = x.head
		n := c.tryNode(t, h, roundtest.Silent)
		testkit.Receive(t, n.ended)
		roundtest.WantStatus(t, n.err, x.code, x.says)
		_, err := client.Check(testkit.Within(t), &conclavev1.CheckRequest{Hello: h})
		roundtest.WantStatus(t, err, x.code, x.says)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	const refused = `conclave_nodes_refused_total{reason="ledger_went_back"}`
	if n := scrape(t, c.server.MonitorAddr().String())[refused]; n != 2 {
		t.Errorf("%v nodes are counted as refused for the ledger", n)
	}
	if nodes, err := c.server.store.Nodes(testkit.Within(t), d); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	// A returning peer receives later entries; a new peer receives all.
	h := hello(d, "north", "a", 8)
	h.Ledger = headOf(told[2])
	back := c.node(t, h, roundtest.Silent)
	all := told
	told = slices.Clone(all[:3])
	for range all[3:] {
		next(back)
	}
	if last := back.greeting.GetLedger(); !proto.Equal(last, headOf(all[len(all)-1])) {
		t.Errorf("the node is welcomed with %v", last)
	}
	fresh := c.node(t, hello(d, "east", "c", 4), roundtest.Silent)
	told = nil
	for range all {
		next(fresh)
	}
	if len(fresh.entries)+len(back.entries) != 0 {
		t.Error("entries are told twice")
	}
}

func headOf(e ledger.Entry) *conclavev1.LedgerHead {
	return round.HeadOf(coordinator.LedgerHead{Seq: e.Seq, Hash: e.Hash})
}
