package attacks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// asked is a round as a node receives it.
type asked struct {
	round   *conclavev1.Round
	attempt uint64
}

// party is a scripted node.
type party struct {
	stream   rpc.TeacherService_WorkClient
	cancel   context.CancelFunc
	welcomed chan struct{}
	rounds   chan asked
	permit   func(*conclavev1.WorkResponse) []*conclavev1.WorkRequest // its answers to a permit
	ended    chan struct{}
	err      error // why the stream ended; valid once ended is closed
}

func helloOf(dataset, site, node string, teachers uint32) *conclavev1.Hello {
	return &conclavev1.Hello{
		Protocol: 5, Dataset: dataset, Site: site, Node: node, Teachers: teachers,
		SchemaSha256: schema, Unit: "record", Manifest: "fingerprint-" + site + "-" + node,
	}
}

// work opens a stream and reads from it. It sends nothing.
func work(t testing.TB, conn *grpc.ClientConn) *party {
	t.Helper()
	return workWith(t, conn, permitted)
}

func workWith(
	t testing.TB, conn *grpc.ClientConn, permit func(*conclavev1.WorkResponse) []*conclavev1.WorkRequest,
) *party {
	t.Helper()
	p, err := begin(conn, permit)
	testkit.Must(t, err)
	t.Cleanup(p.leave)
	return p
}

// begin starts a node that outlives its test.
func begin(conn *grpc.ClientConn, permit func(*conclavev1.WorkResponse) []*conclavev1.WorkRequest) (*party, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := rpc.NewTeacherServiceClient(conn).Work(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	p := &party{stream: stream, cancel: cancel, welcomed: make(chan struct{}), rounds: make(chan asked, 1000),
		permit: permit, ended: make(chan struct{})}
	go p.read()
	return p, nil
}

func (p *party) leave() {
	p.cancel()
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience): // some have no test
		panic(fmt.Sprintf("the stream goes on %v after it was ended", testkit.Patience))
	}
}

func (p *party) read() {
	defer close(p.ended)
	var raw []byte
	for {
		m, err := p.stream.Recv()
		if err != nil {
			p.err = err
			return
		}
		switch {
		case m.GetWelcome() != nil:
			close(p.welcomed)
		case m.GetPermit() != nil:
			for _, answer := range p.permit(m) {
				p.say(answer)
			}
		case m.GetPart() != nil:
			raw = append(raw, m.GetPart().GetData()...)
			if m.GetPart().GetPart()+1 < m.GetPart().GetParts() {
				continue
			}
			round := new(conclavev1.Round)
			if p.err = proto.Unmarshal(raw, round); p.err != nil {
				return
			}
			raw = nil
			p.rounds <- asked{round, m.GetAttempt()}
		}
	}
}

func permitted(m *conclavev1.WorkResponse) []*conclavev1.WorkRequest {
	return []*conclavev1.WorkRequest{permits(m)}
}

// permits is the answer of a node whose site permits a run.
func permits(m *conclavev1.WorkResponse) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Attempt: m.GetAttempt(), Message: &conclavev1.WorkRequest_Permitted{
		Permitted: &conclavev1.Permitted{Run: m.GetPermit().GetRun(), Round: m.GetPermit().GetRound()},
	}}
}

// join opens a stream, says hello and waits for the welcome.
func join(t testing.TB, conn *grpc.ClientConn, h *conclavev1.Hello) *party {
	t.Helper()
	return work(t, conn).join(t, h)
}

func (p *party) join(t testing.TB, h *conclavev1.Hello) *party {
	t.Helper()
	p.say(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}})
	select {
	case <-p.welcomed:
	case <-p.ended:
		t.Fatalf("node %s/%s was refused: %v", h.GetSite(), h.GetNode(), p.err)
	case <-time.After(testkit.Patience):
		t.Fatalf("node %s/%s was not welcomed", h.GetSite(), h.GetNode())
	}
	return p
}

// say sends a message; the reader reports the end of the stream.
func (p *party) say(m *conclavev1.WorkRequest) { _ = p.stream.Send(m) }

// next is the next round.
func (p *party) next(t testing.TB) asked {
	t.Helper()
	select {
	case a := <-p.rounds:
		return a
	case <-p.ended:
		t.Fatalf("the stream ended: %v", p.err)
	case <-time.After(testkit.Patience):
		t.Fatal("no round came")
	}
	return asked{}
}

// over waits for the end of the stream.
func (p *party) over(t testing.TB) error {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience):
		t.Fatal("the stream goes on")
	}
	return p.err
}

// votesOf are a node's votes, each chosen by teacher and query.
func votesOf(a asked, teachers, queries, classes int, vote func(teacher, query int) int) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Attempt: a.attempt, Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
		Run: a.round.GetRun(), Round: a.round.GetNumber(), Teachers: uint32(teachers), Queries: uint32(queries),
		Packed: roundtest.PackVotes(teachers, queries, classes, vote),
	}}}
}

func sumOf(a asked, values []int64) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Attempt: a.attempt, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
		Run: a.round.GetRun(), Round: a.round.GetNumber(), Values: values,
	}}}
}

func refusalOf(a asked, reason string) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Attempt: a.attempt,
		Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{
			Run: a.round.GetRun(), Round: a.round.GetNumber(), Reason: reason,
		}}}
}

// outcome is how a student's round ended.
type outcome struct {
	release *conclavev1.Release
	err     error
}

// ask sends a round in one part.
func ask(ctx context.Context, student rpc.StudentServiceClient,
	round *conclavev1.Round) (*conclavev1.Release, error) {
	raw, err := proto.Marshal(round)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := student.Ask(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&conclavev1.AskRequest{Part: &conclavev1.RoundPart{
		Run: round.GetRun(), Round: round.GetNumber(), Parts: 1, Data: raw}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if m.GetRelease() != nil {
			return m.GetRelease(), nil
		}
	}
}

const (
	honestTeachers  = 4
	hostileTeachers = 4
)

// scene is a run on its own dataset with an honest node, for one question.
type scene struct {
	w       *world
	spec    *conclavev1.RunSpec
	q       question
	honest  *party
	student rpc.StudentServiceClient
}

func (w *world) scene(t testing.TB, q question) *scene {
	t.Helper()
	s := w.openScene(t, q)
	s.honest = join(t, w.honest(t, certs.RoleNode, "north"), helloOf(s.spec.GetDataset(), "north", "a", honestTeachers))
	return s
}

// openScene is a scene without its node.
func (w *world) openScene(t testing.TB, q question) *scene {
	t.Helper()
	spec := specOf(w.dataset(q.planned))
	if q.open != nil {
		q.open(spec)
	}
	s := &scene{w: w, spec: spec, q: q, student: w.student(t)}
	_, err := s.student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
	testkit.Must(t, err)
	return s
}

// mallory is the hostile node of the scene.
func (s *scene) mallory(t testing.TB) *party {
	t.Helper()
	return join(t, s.w.dial(t, certs.RoleNode, "mallory"),
		helloOf(s.spec.GetDataset(), "mallory", "m", hostileTeachers))
}

// exact checks that the last histogram is exactly the honest node's.
func (s *scene) exact(t testing.TB) {
	t.Helper()
	if got := s.w.countsOf(s.spec.GetName()); !slices.Equal(got, s.q.counts) {
		t.Errorf("the histogram is %v, want %v", got, s.q.counts)
	}
}

// ask asks a round of the scene's run.
func (s *scene) ask(t testing.TB, number uint64) <-chan outcome {
	over := make(chan outcome, 1)
	ctx := testkit.Within(t)
	go func() {
		r, err := ask(ctx, s.student, s.q.round(s.spec.GetName(), number))
		over <- outcome{r, err}
	}()
	return over
}

// answer lets the honest node answer everything until the round is over, and returns the release.
func (s *scene) answer(t testing.TB, over <-chan outcome) *conclavev1.Release {
	t.Helper()
	for {
		select {
		case a := <-s.honest.rounds:
			s.honest.say(s.q.honest(a))
		case o := <-over:
			testkit.Must(t, o.err)
			return o.release
		case <-s.honest.ended:
			t.Fatalf("the honest node was sent away: %v", s.honest.err)
		case <-time.After(testkit.Patience):
			t.Fatal("the round does not end")
		}
	}
}
