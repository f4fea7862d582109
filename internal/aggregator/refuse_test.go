package aggregator

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestRefusals(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)

	t.Run("roles", func(t *testing.T) {
		asNode := conclavev1.NewStudentServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north")))
		_, err := asNode.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: roundtest.Spec()})
		roundtest.WantStatus(t, err, codes.PermissionDenied, "node", "north", "student")
		ledger, err := asNode.ReadLedger(testkit.Within(t), &conclavev1.ReadLedgerRequest{Run: "r"})
		testkit.Must(t, err)
		_, err = ledger.Recv()
		roundtest.WantStatus(t, err, codes.PermissionDenied, "north")

		conn := c.dial(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student"))
		work, err := conclavev1.NewTeacherServiceClient(conn).Work(testkit.Within(t))
		testkit.Must(t, err)
		_, err = work.Recv()
		roundtest.WantStatus(t, err, codes.PermissionDenied, "student", "node")

		health, err := healthpb.NewHealthClient(conn).Check(testkit.Within(t), &healthpb.HealthCheckRequest{})
		testkit.Must(t, err)
		if health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health is %v", health.GetStatus())
		}
		err = conn.Invoke(testkit.Within(t), "/conclave.v1.Other/Call", &conclavev1.Hello{}, &conclavev1.Hello{})
		roundtest.WantStatus(t, err, codes.Unimplemented)
	})

	t.Run("a certificate of another authority", func(t *testing.T) {
		foreign := filepath.Join(t.TempDir(), "certs")
		testkit.Must(t, authority.Create(foreign))
		testkit.Must(t, authority.Issue(foreign, certs.RoleStudent, "student", nil, time.Hour))
		files := certs.IssuedFiles(foreign, certs.RoleStudent, "student")
		files.CA = c.config.TLS.CA // trusts the server, is not trusted by it
		// The client checks its own files, so it cannot even be made to dial
		// with a mixed set; with a consistent set, both sides refuse.
		if _, err := tlsconfig.Client(files, "127.0.0.1"); err == nil {
			t.Error("a certificate that its authority did not sign was loaded")
		}
		files = certs.IssuedFiles(foreign, certs.RoleStudent, "student")
		_, err := conclavev1.NewStudentServiceClient(c.dial(t, files)).OpenRun(testkit.Within(t),
			&conclavev1.OpenRunRequest{Spec: roundtest.Spec()})
		roundtest.WantStatus(t, err, codes.Unavailable, "authentication handshake failed")
		if err := handshakeWith(t, c.server.Addr().String(), files); err == nil {
			t.Error("the server spoke to a certificate of another authority")
		}
	})

	t.Run("hellos", func(t *testing.T) {
		d := c.dataset()
		c.node(t, hello(d, "north", "a", 4), roundtest.Silent).leave()
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
				conn := c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north"))
				stream, err := conclavev1.NewTeacherServiceClient(conn).Work(testkit.Within(t))
				testkit.Must(t, err)
				mustSend(t, stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: m}})
				_, err = stream.Recv()
				roundtest.WantStatus(t, err, h.code, h.want)
			})
		}
		t.Run("votes first", func(t *testing.T) {
			stream, err := conclavev1.NewTeacherServiceClient(c.dial(t,
				certs.IssuedFiles(c.certs, certs.RoleNode, "north"))).Work(testkit.Within(t))
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

	t.Run("malformed answers are rejected by name and never counted", func(t *testing.T) {
		good := &conclavev1.Votes{Teachers: 5, Queries: 3, Packed: []byte{1, 2, 3, 4, 5}}
		sum := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: []int64{1, 2,
			3}}}}
		votesWith := func(change func(v *conclavev1.Votes)) *conclavev1.WorkRequest {
			v := proto.Clone(good).(*conclavev1.Votes)
			change(v)
			return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: v}}
		}
		for name, bad := range map[string]struct {
			answer *conclavev1.WorkRequest
			want   string
		}{
			"no votes":           {votesWith(func(v *conclavev1.Votes) { v.Packed = nil }), "0 bytes"},
			"one byte short":     {votesWith(func(v *conclavev1.Votes) { v.Packed = v.Packed[1:] }), "4 bytes"},
			"one byte long":      {votesWith(func(v *conclavev1.Votes) { v.Packed = append(v.Packed, 0) }), "6 bytes"},
			"oversized":          {votesWith(func(v *conclavev1.Votes) { v.Packed = make([]byte, 1<<20) }), "bytes"},
			"padding, last row":  {votesWith(func(v *conclavev1.Votes) { v.Packed[4] = 0x80 }), "padding"},
			"padding, first row": {votesWith(func(v *conclavev1.Votes) { v.Packed[0] = 0x08 }), "padding"},
			"more teachers": {votesWith(func(v *conclavev1.Votes) { v.Teachers = 6; v.Packed = make([]byte, 6) }),
				"6 teachers"},
			"fewer teachers": {votesWith(func(v *conclavev1.Votes) { v.Teachers = 4; v.Packed = make([]byte, 4) }),
				"4 teachers"},
			"no teachers": {votesWith(func(v *conclavev1.Votes) { v.Teachers = 0; v.Packed = nil }),
				"0 teachers"},
			"more queries":  {votesWith(func(v *conclavev1.Votes) { v.Queries = 4 }), "4 queries"},
			"fewer queries": {votesWith(func(v *conclavev1.Votes) { v.Queries = 2 }), "2 queries"},
			"a sum":         {sum, "sum"},
			"a refusal": {&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{
				Refusal: &conclavev1.Refusal{Reason: "own\n budget\x00 spent"}}},
				"refused: own budget spent"},
		} {
			t.Run(name, func(t *testing.T) {
				d := c.dataset()
				spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Teachers = 5 })
				c.node(t, hello(d, "north", "bad", 5), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
					return []*conclavev1.WorkRequest{roundtest.Addressed(bad.answer, r)}
				})
				_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 3), nil)
				roundtest.WantStatus(t, err, codes.FailedPrecondition, "north/bad", bad.want)
				if entries := student.ledger(t, spec.Name); len(entries) != 0 {
					t.Errorf("charged %v", entries)
				}
			})
		}
	})

	t.Run("the second answer of a node does not count", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Quorum, s.DeadlineSeconds = 1, 5 })
		release := make(chan struct{})
		c.node(t, hello(d, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			once := roundtest.Votes(4, roundtest.Alternating)(r)
			return append(once, once...)
		})
		c.node(t, hello(d, "south", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			<-release
			return roundtest.Votes(4, roundtest.Alternating)(r)
		})
		go func() {
			time.Sleep(50 * time.Millisecond)
			close(release)
		}()
		if r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2)); r.GetTeachers() != 8 {
			t.Errorf("%d teachers counted", r.GetTeachers())
		}
	})

	t.Run("more teachers than the run counts on", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, nil)
		c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
		c.node(t, hello(d, "south", "b", 1), roundtest.Votes(1, roundtest.Alternating))
		_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 2), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "north/a with 8", "south/b with 1")
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
				spec := roundtest.Spec()
				spec.Dataset, spec.Name = d, "run-"+d
				r.change(spec)
				_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
				roundtest.WantStatus(t, err, r.code, r.want)
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
