package aggregator

import (
	"bytes"
	"encoding/hex"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Nodes are told of the ledger's entries, and one that was told of an entry which the ledger
// does not hold is refused, by name and before anything of it is stored.
func TestALedgerThatWentBackIsRefusedByItsNodes(t *testing.T) {
	_, monitored := observed(t)
	c := newCluster(t, Options{}, monitored)
	d := c.dataset()
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	if first := node.greeting.GetLedger(); first != nil {
		t.Errorf("before the first run the welcome names entry %v", first)
	}
	s := c.student(t)
	spec, _ := s.open(t, d, nil)
	for round := range uint64(3) {
		s.mustAsk(t, roundtest.VoteRound(spec.Name, round, 2))
	}
	var told []*conclavev1.LedgerHead
	for range 3 {
		told = append(told, (testkit.Receive(t, node.terms)).GetLedger())
	}
	opened := told[0]
	if opened.GetSeq() != 2 || len(opened.GetHash()) != 32 { // in no backup from before the run
		t.Errorf("the first round was asked under %v", opened)
	}
	for number, before := range s.ledger(t, spec.Name)[:2] {
		if m := told[number+1]; !proto.Equal(m,
			round.HeadOf(coordinator.LedgerHead{Seq: before.Seq, Hash: before.Hash})) {
			t.Errorf("round %d was asked under %v, the entry before it is %d (%s)", number+1, m, before.Seq,
				before.Hash)
		}
	}
	closed, err := s.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	over := testkit.Receive(t, node.withdrawn)
	head := hex.EncodeToString(over.GetLedger().GetHash())
	if !over.GetOver() || over.GetRun() != spec.Name || head != closed.GetLedgerHead() {
		t.Errorf("the end of the run is told as %v, the ledger ends with %s", over, closed.GetLedgerHead())
	}
	node.leave()

	client := conclavev1.NewTeacherServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "south")))
	for name, x := range map[string]struct {
		head *conclavev1.LedgerHead
		code codes.Code
		says string
	}{
		"later": {&conclavev1.LedgerHead{Seq: 1000, Hash: opened.GetHash()}, codes.FailedPrecondition,
			"the ledger went back"},
		"another": {&conclavev1.LedgerHead{Seq: 2, Hash: bytes.Repeat([]byte{7}, 32)}, codes.FailedPrecondition,
			"restore a newer backup"},
		"no number": {&conclavev1.LedgerHead{Hash: opened.GetHash()}, codes.InvalidArgument, "names no entry"},
		"a short hash": {&conclavev1.LedgerHead{Seq: 2, Hash: opened.GetHash()[:31]}, codes.InvalidArgument,
			"names no entry"},
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
	h := hello(d, "north", "a", 8)
	h.Ledger = told[2]
	back := c.node(t, h, roundtest.Silent)
	if last := back.greeting.GetLedger(); last.GetSeq() <= told[2].GetSeq() {
		t.Errorf("the node that was asked under %v is welcomed with %v", told[2], last)
	}
}
