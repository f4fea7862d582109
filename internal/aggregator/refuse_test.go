package aggregator

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

func TestRefusals(t *testing.T) {
	c := shared(t)
	student := c.student(t)

	t.Run("a call that there is not", func(t *testing.T) {
		conn := c.dial(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student"))
		err := conn.Invoke(testkit.Within(t), "/conclave.v1.Other/Call", &conclavev1.Hello{}, &conclavev1.Hello{})
		roundtest.WantStatus(t, err, codes.Unimplemented)
	})

	t.Run("hellos", func(t *testing.T) {
		d := c.dataset()
		client := rpc.NewTeacherServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north")))
		// A check predicts the answer to a hello, stores nothing, and disconnects no peer.
		check := func(h *conclavev1.Hello) (*conclavev1.CheckResponse, error) {
			return client.Check(testkit.Within(t), &conclavev1.CheckRequest{Hello: h})
		}
		r, err := check(hello(d, "north", "a", 4))
		testkit.Must(t, err)
		if r.GetKnown() || r.GetEpsilon() != 100 || r.GetDelta() != 1e-5 || r.GetTeachersLive() != 0 ||
			r.GetAggregator() != "agg" || r.GetProtocol() != 5 {
			t.Errorf("%v", r)
		}
		if nodes, err := c.server.store.Nodes(testkit.Within(t), d); err != nil || len(nodes) != 0 {
			t.Errorf("nodes %v, %v", nodes, err)
		}
		node := c.node(t, hello(d, "north", "a", 4), roundtest.Silent)
		if r, err = check(hello(d, "north", "a", 4)); err != nil || !r.GetKnown() || r.GetTeachersLive() != 4 {
			t.Errorf("%v, %v", r, err)
		}
		select {
		case <-node.ended:
			t.Errorf("the node was pushed out: %v", node.err)
		default:
		}
		node.leave()
		_, err = check(nil)
		roundtest.WantStatus(t, err, codes.InvalidArgument, "must contain a hello")
		for name, h := range map[string]struct {
			change func(h *conclavev1.Hello)
			code   codes.Code
			want   string
		}{
			"protocol": {func(h *conclavev1.Hello) { h.Protocol = 4 }, codes.FailedPrecondition,
				"protocol 4"},
			"site":      {func(h *conclavev1.Hello) { h.Site = "south" }, codes.PermissionDenied, "south"},
			"node name": {func(h *conclavev1.Hello) { h.Node = "a/b" }, codes.InvalidArgument, "a/b"},
			"dataset": {func(h *conclavev1.Hello) { h.Dataset = "elsewhere" }, codes.FailedPrecondition,
				"elsewhere"},
			"schema": {func(h *conclavev1.Hello) { h.SchemaSha256 = "00" }, codes.FailedPrecondition,
				"schema"},
			"unit": {func(h *conclavev1.Hello) { h.Unit = "patient" }, codes.FailedPrecondition,
				"patient"},
			"no teachers": {func(h *conclavev1.Hello) { h.Teachers = 0 }, codes.InvalidArgument, "0 teachers"},
			"absurd teachers": {func(h *conclavev1.Hello) { h.Teachers = 1 << 30 }, codes.InvalidArgument,
				"teachers"},
			"no manifest": {func(h *conclavev1.Hello) { h.Manifest = "" }, codes.InvalidArgument, "manifest"},
			"other manifest": {func(h *conclavev1.Hello) { h.Manifest = "changed" }, codes.FailedPrecondition,
				`"a"`},
			"other teacher count": {func(h *conclavev1.Hello) { h.Teachers = 5 }, codes.FailedPrecondition, `"north"`},
		} {
			t.Run(name, func(t *testing.T) {
				m := hello(d, "north", "a", 4)
				h.change(m)
				stream, err := client.Work(testkit.Within(t))
				testkit.Must(t, err)
				mustSend(t, stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: m}})
				_, err = stream.Recv()
				roundtest.WantStatus(t, err, h.code, h.want)
				if m.Manifest == "" { // none exists before the first start, which is an expected difference
					h.code = codes.FailedPrecondition
				}
				_, err = check(m)
				roundtest.WantStatus(t, err, h.code, h.want)
			})
		}
		t.Run("votes first", func(t *testing.T) {
			stream, err := client.Work(testkit.Within(t))
			testkit.Must(t, err)
			mustSend(
				t,
				stream,
				&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{}}},
			)
			_, err = stream.Recv()
			roundtest.WantStatus(t, err, codes.InvalidArgument, "hello")
		})
		t.Run("hello twice", func(t *testing.T) {
			n := c.node(t, hello(d, "north", "a", 4), roundtest.Silent)
			mustSend(t, n.stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: hello(d,
				"north", "a", 4)}})
			testkit.Receive(t, n.ended)
			roundtest.WantStatus(t, n.err, codes.InvalidArgument, "second hello")
		})
	})

	t.Run("a second stream of a node replaces the first", func(t *testing.T) {
		d := c.dataset()
		first := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
		second := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
		testkit.Receive(t, first.ended)
		roundtest.WantStatus(t, first.err, codes.Aborted, "newer stream")
		spec, _ := student.open(t, d, nil)
		if r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2)); r.GetTeachers() != 8 ||
			len(second.rounds) != 1 {
			t.Errorf("%d teachers took part", r.GetTeachers())
		}
	})

	t.Run("more teachers than the run counts on", func(t *testing.T) {
		student, spec, _ := c.begin(t, nil, roundtest.Votes(8, roundtest.Alternating))
		d := spec.Dataset
		c.node(t, hello(d, "south", "b", 1), roundtest.Votes(1, roundtest.Alternating))
		student.refused(t, roundtest.VoteRound(spec.Name, 0, 2), codes.FailedPrecondition, "north/a with 8",
			"south/b with 1")
	})

	t.Run("runs", func(t *testing.T) {
		d := c.dataset()
		student.open(t, d, nil)
		for name, r := range map[string]struct {
			change func(s *conclavev1.RunSpec)
			code   codes.Code
			want   string
		}{
			"another spec": {func(s *conclavev1.RunSpec) { s.Pipeline = "gpate" }, codes.AlreadyExists,
				"another spec"},
			"another plan": {func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism.Sigma = 21 }, codes.AlreadyExists,
				"another spec"},
			"a longer plan": {roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 1)),
				codes.AlreadyExists, "another spec"},
			"a count": {func(s *conclavev1.RunSpec) { s.Plan[0].Count = 3 }, codes.AlreadyExists,
				"another spec"},
			"another filter": {func(s *conclavev1.RunSpec) { s.Filter, s.Plan[0].Count = "rdp", 3 },
				codes.AlreadyExists, "another budget"},
			"dataset": {func(s *conclavev1.RunSpec) { s.Dataset = "elsewhere" }, codes.FailedPrecondition,
				"elsewhere"},
			"schema": {func(s *conclavev1.RunSpec) { s.SchemaSha256 = "00" }, codes.FailedPrecondition,
				"schema"},
			"unit":       {func(s *conclavev1.RunSpec) { s.Unit = "patient" }, codes.FailedPrecondition, "patient"},
			"coin votes": {func(s *conclavev1.RunSpec) { s.CoinVotes = true }, codes.FailedPrecondition, "coin"},
			"epsilon":    {func(s *conclavev1.RunSpec) { s.Epsilon = 101 }, codes.FailedPrecondition, "101"},
			"epsilon 0":  {func(s *conclavev1.RunSpec) { s.Epsilon = 0 }, codes.InvalidArgument, "epsilon"},
			"data-dependent": {func(s *conclavev1.RunSpec) { s.Guarantee = "data-dependent" }, codes.FailedPrecondition,
				"data-independent"},
		} {
			t.Run(name, func(t *testing.T) {
				roundtest.WantStatus(t, student.tryOpen(t, d, r.change), r.code, r.want)
			})
		}
		_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{})
		roundtest.WantStatus(t, err, codes.InvalidArgument, "spec")
		_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: "nobody"})
		roundtest.WantStatus(t, err, codes.NotFound)
	})

	t.Run("a round that ends early", func(t *testing.T) {
		stream, err := student.Ask(testkit.Within(t))
		testkit.Must(t, err)
		mustSend(t, stream, &conclavev1.AskRequest{Part: &conclavev1.RoundPart{Run: "r", Parts: 2, Data: []byte("x")}})
		testkit.Must(t, stream.CloseSend())
		_, err = stream.Recv()
		roundtest.WantStatus(t, err, codes.InvalidArgument, "1 of 2 parts")
	})
}
