package aggregator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// An operator sees the state of each node ever admitted and the reason, page by page; nobody else does.
func TestOperatorsSeeNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d, student := c.dataset(), c.student(t)
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum = 1 })
	key := payload.Key{Run: spec.Name, Number: 0}
	c.node(t, hello(d, "north", "a", 4), func(*conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{refusal(key, true, "waits for approval at site north\x00")}
	})
	c.node(t, hello(d, "south", "a", 2), func(*conclavev1.Round) []*conclavev1.WorkRequest { return nil })
	c.node(t, hello(d, "south", "b", 2), roundtest.Votes(2, roundtest.Alternating))
	c.node(t, hello(d, "east", "a", 2), roundtest.Votes(2, roundtest.Alternating)).leave()
	roster := c.server.rounds.Datasets[d]
	testkit.Eventually(t, "the aggregator to see that a node left", func() bool {
		_, gone := roster.Departed(peer.ID{Site: "east", Name: "a"})
		return gone
	})
	foreign := hello(d, "east", "a", 3)
	if n := c.tryNodeOf(t, foreign, nil, nil); n != nil {
		testkit.Receive(t, n.ended)
	}
	api := rpc.NewOperatorServiceClient(c.dialAs(t, "operator", "desk"))
	ctx := testkit.Within(t)
	list := func(q *conclavev1.ListNodesRequest) (all []string, last *conclavev1.NodeName, more bool) {
		t.Helper()
		r, err := api.ListNodes(ctx, q)
		testkit.Must(t, err)
		for _, n := range r.GetNodes() {
			state := strings.TrimPrefix(n.GetState().String(), "NODE_STATE_")
			all = append(all, fmt.Sprintf("%s/%s %d %s: %s", n.GetName().GetSite(), n.GetName().GetNode(),
				n.GetTeachers(), state, n.GetReason()))
			last = n.GetName()
			ends, err := time.Parse(time.RFC3339, n.GetCertificateEnds())
			if connected := n.GetState() != conclavev1.NodeState_NODE_STATE_NOT_CONNECTED; connected &&
				(err != nil || ends.Second() != 0 || time.Until(ends) > time.Hour) || !connected && n.GetSince() == "" {
				t.Errorf("%v", n)
			}
		}
		return all, last, r.GetMore()
	}
	const gone, ready = "east/a 2 NOT_CONNECTED: it was refused: ", " 2 READY: "
	stand := func(want ...string) func() bool {
		return func() bool {
			got, _, _ := list(&conclavev1.ListNodesRequest{Dataset: d})
			return slices.EqualFunc(got, want, strings.HasPrefix)
		}
	}
	testkit.Eventually(t, "the nodes to be ready",
		stand(gone, "north/a 4 READY: ", "south/a"+ready, "south/b"+ready))
	go func() { _, _ = student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 3), nil) }()
	// Until the minute is over, south/b counts as one that has not answered.
	testkit.Eventually(t, "the nodes to stand as they do", stand(gone,
		"north/a 4 WAITS_FOR_APPROVAL: run "+spec.Name+" waits for approval at site north",
		"south/a 2 ANSWERING: it was asked a round of run "+spec.Name, "south/b 2 "))
	got, _, _ := list(&conclavev1.ListNodesRequest{Dataset: d})
	var paged []string
	q := &conclavev1.ListNodesRequest{Limit: 3}
	for more := true; more; {
		var page []string
		page, q.After, more = list(q)
		paged = append(paged, page...)
	}
	nodes := func(lines []string) (names []string) { // the states change with the minute
		for _, line := range lines {
			name, _, _ := strings.Cut(line, " ")
			names = append(names, name)
		}
		return names
	}
	testkit.Same(t, "in pages of three", nodes(got), nodes(paged))

	_, err := api.ListNodes(ctx, &conclavev1.ListNodesRequest{Limit: 501})
	roundtest.WantStatus(t, err, codes.InvalidArgument, "500")
	_, err = api.ListNodes(ctx, &conclavev1.ListNodesRequest{Dataset: "other"})
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "other")
	spy := rpc.NewOperatorServiceClient(c.dialAs(t, "student", "spy"))
	_, err = spy.ListNodes(ctx, &conclavev1.ListNodesRequest{})
	roundtest.WantStatus(t, err, codes.PermissionDenied, "role operator")

	// An operator can read a ledger, too.
	stream, err := (&testStudent{rpc.NewStudentServiceClient(c.dialAs(t, "operator", "desk"))}).ReadLedger(ctx,
		&conclavev1.ReadLedgerRequest{Run: spec.Name})
	testkit.Must(t, err)
	if _, err := stream.Recv(); err != nil {
		t.Errorf("an operator reads no ledger: %v", err)
	}
	roster.Depart(peer.ID{Site: "south", Name: "b"}, "nothing: it is connected")
	if _, gone := roster.Departed(peer.ID{Site: "south", Name: "b"}); gone {
		t.Error("a node that is connected is gone")
	}
}
