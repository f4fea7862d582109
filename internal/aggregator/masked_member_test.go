package aggregator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// maskedRun is a masked run of sums of units on a cluster, with one member per site.
type maskedRun struct {
	t       testing.TB
	c       *cluster
	student *testStudent
	spec    *conclavev1.RunSpec
	group   masking.Group
	members map[string]*member
}

const (
	maskedEntries = 400
	maskedSigma   = 2 // with a bound of 1 << 16 steps; see roundtest.OfUnits
)

// maskedRun opens a run among sites in name order, with a deadline for each step of a round. No member is connected
// yet.
func (c *cluster) maskedRun(t testing.TB, seconds float64, quorum, colluding int, sites ...string) *maskedRun {
	t.Helper()
	r := &maskedRun{t: t, c: c, student: c.student(t), members: map[string]*member{}}
	r.group = masking.Group{Quorum: quorum, Colluding: colluding}
	for i, site := range sites {
		key := testkit.Value(pemfile.LoadKey(certs.IssuedFiles(c.certs, certs.RoleNode, site).Key))
		r.group.Members = append(r.group.Members, testkit.Value(masking.MemberOf(site, key.Public())))
		vector := make([]int64, maskedEntries)
		for entry := range vector { // each member's values differ in size, so the total reveals the contributors
			vector[entry] = int64(math.Pow(32, float64(i))*1e6) * int64(1-entry%3)
		}
		r.members[site] = &member{
			t: t, site: site, party: testkit.Value(masking.NewParty(site, key)), vector: vector, at: honest,
		}
	}
	r.spec, _ = r.student.open(t, c.dataset(), func(s *conclavev1.RunSpec) {
		roundtest.EmbeddingOf(maskedSigma)(s)
		s.Teachers, s.Quorum, s.Masked = uint32(len(sites)), 0.1, r.group.Wire()
		s.DeadlineSeconds = seconds
	})
	return r
}

// join connects all members of sites.
func (r *maskedRun) join(sites ...string) {
	r.t.Helper()
	for _, site := range sites {
		m := r.members[site]
		r.c.live(r.t, hello(r.spec.Dataset, site, "n", 1), m)
		testkit.Receive(r.t, m.life.welcomed)
	}
}

func (r *maskedRun) round(number uint64) *conclavev1.Round {
	return roundtest.EmbeddingRound(r.spec.Name, number, maskedEntries, nil)
}

// opened checks that a release is the sum of these sites' values with a share of noise from each. It allows 8
// standard deviations, which chance exceeds with a probability below 1e-12.
func (r *maskedRun) opened(release *conclavev1.Release, sites ...string) {
	r.t.Helper()
	deviation := maskedSigma * (1 << 16) * math.Sqrt(float64(len(sites))/float64(r.group.Quorum-r.group.Colluding))
	values, squares := release.GetSum().GetValues(), 0.0
	if len(values) != maskedEntries {
		r.t.Fatalf("released %d numbers", len(values))
	}
	for entry, v := range values {
		for _, site := range sites {
			v -= r.members[site].vector[entry]
		}
		if math.Abs(float64(v)) > 8*deviation {
			r.t.Fatalf("entry %d is off by %d, %.1f standard deviations", entry, v, float64(v)/deviation)
		}
		squares += float64(v) * float64(v)
	}
	// Twelve standard deviations of a chi-squared distribution with 400 degrees of freedom.
	if ratio := squares / maskedEntries / (deviation * deviation); math.Abs(ratio-1) > 12*math.Sqrt(2./maskedEntries) {
		r.t.Errorf("the noise has %.2f times the variance that %d shares have", ratio, len(sites))
	}
}

// The requests to a member of a masked run, in order.
const (
	atPermit    = "permit"
	atAnswer    = "answer"
	atAgreement = "agreement"
	atSeeds     = "seeds"
)

// member is a scripted node of a masked run on top of [masking.Party]: it can leave, lie and delay at each step.
type member struct {
	t      testing.TB
	site   string
	party  *masking.Party // it survives streams, as a process does
	vector []int64
	at     step
	life   *life
}

// step gets the message that a member is about to send at a stage, and returns what to send instead, or nil to send
// nothing.
type step func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest

// life is one stream of a member.
type life struct {
	stream          rpc.TeacherService_WorkClient
	end             context.CancelFunc
	welcomed, ended chan struct{}

	mu   sync.Mutex
	sent []*conclavev1.WorkRequest
	got  []*conclavev1.WorkResponse
}

func honest(_ string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest { return m }

// live connects a node that answers as this member. Its earlier stream, if it had one, has ended.
func (c *cluster) live(t testing.TB, h *conclavev1.Hello, m *member) {
	t.Helper()
	conn := c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, h.GetSite()))
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := rpc.NewTeacherServiceClient(conn).Work(ctx)
	testkit.Must(t, err)
	l := &life{stream: stream, end: cancel, welcomed: make(chan struct{}), ended: make(chan struct{})}
	m.life = l
	mustSend(t, stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}})
	go l.work(m)
	t.Cleanup(func() { l.leave(t) })
}

// leave ends the stream as a dying process does.
func (l *life) leave(t testing.TB) {
	l.end()
	testkit.Receive(t, l.ended)
}

// count counts the messages of a kind.
func (l *life) count(of func(*conclavev1.WorkResponse) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got {
		if of(m) {
			n++
		}
	}
	return n
}

// attempts is the number of attempts.
func (l *life) attempts() int {
	return l.count(func(m *conclavev1.WorkResponse) bool { return m.GetMasked() != nil })
}

func (l *life) work(m *member) {
	defer close(l.ended)
	var round assembled
	for {
		in, err := l.stream.Recv()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.got = append(l.got, in)
		l.mu.Unlock()
		if in.GetWelcome() != nil {
			close(l.welcomed)
		}
		stage, out, err := m.reply(in, &round)
		if err != nil { // it is not in this attempt, and says so as a node does
			refusal := &conclavev1.Refusal{Run: round.run, Round: round.number, Reason: err.Error()}
			if doubt := (*masking.DoubtError)(nil); errors.As(err, &doubt) {
				refusal.Doubted = doubt.Sites
			}
			out = &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: refusal}}
		}
		if out != nil && stage != "" {
			out = m.at(stage, out)
		}
		if out == nil {
			continue
		}
		out.Attempt = in.GetAttempt()
		l.mu.Lock()
		l.sent = append(l.sent, out)
		l.mu.Unlock()
		_ = l.stream.Send(out) // the reader reports why the stream ended
	}
}

// assembled holds the received parts of a round.
type assembled struct {
	run    string
	number uint64
	raw    []byte
	terms  *conclavev1.RoundTerms
	masked *conclavev1.MaskedRound
}

// reply is an honest member's answer to a message, or nil if none is due.
func (m *member) reply(in *conclavev1.WorkResponse, round *assembled) (
	stage string, out *conclavev1.WorkRequest, err error,
) {
	switch {
	case in.GetPermit() != nil:
		p := in.GetPermit()
		*round = assembled{run: p.GetRun(), number: p.GetRound()}
		spec, g, err := groupIn(in.GetTerms())
		if err != nil {
			return "", nil, err
		}
		key, err := m.party.Key(spec.GetName(), sha256.Sum256(in.GetTerms().GetSpec()), g)
		return atPermit, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Permitted{
			Permitted: &conclavev1.Permitted{Run: p.GetRun(), Round: p.GetRound(), Key: key}}}, err
	case in.GetPart() != nil:
		p := in.GetPart()
		if p.GetPart() == 0 {
			*round = assembled{run: p.GetRun(), number: p.GetRound(), terms: in.GetTerms(), masked: in.GetMasked()}
		}
		if round.raw = append(round.raw, p.GetData()...); p.GetPart()+1 < p.GetParts() {
			return "", nil, nil
		}
		out, err := m.answer(round)
		return atAnswer, out, err
	case in.GetSurvivors() != nil:
		s := in.GetSurvivors()
		*round = assembled{run: s.GetRun(), number: s.GetRound()}
		tags, err := m.party.Agree(s.GetRun(), s.GetRound(), s.GetSites())
		return atAgreement, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Agreed{
			Agreed: &conclavev1.Agreed{Run: s.GetRun(), Round: s.GetRound(), Tags: tags}}}, err
	case in.GetAgreement() != nil:
		a := in.GetAgreement()
		*round = assembled{run: a.GetRun(), number: a.GetRound()}
		revealed, err := m.party.Reveal(a.GetRun(), a.GetRound(), a.GetTags())
		return atSeeds, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Revealed{Revealed: revealed}}, err
	}
	return "", nil, nil
}

func groupIn(terms *conclavev1.RoundTerms) (*conclavev1.RunSpec, masking.Group, error) {
	spec := new(conclavev1.RunSpec)
	if err := proto.Unmarshal(terms.GetSpec(), spec); err != nil {
		return nil, masking.Group{}, err
	}
	g, err := masking.Parse(spec.GetMasked())
	return spec, g, err
}

func (m *member) answer(r *assembled) (*conclavev1.WorkRequest, error) {
	spec, g, err := groupIn(r.terms)
	if err != nil {
		return nil, err
	}
	if r.masked == nil {
		return nil, fmt.Errorf("round %d came without masks", r.number)
	}
	round := new(conclavev1.Round)
	if err := proto.Unmarshal(r.raw, round); err != nil {
		return nil, err
	}
	plan, err := runspec.Plan(spec)
	if err != nil {
		return nil, err
	}
	entries, share, err := masking.Asked(plan[round.GetPlanned()], round, g)
	if err != nil {
		return nil, err
	}
	a, err := m.party.Begin(&masking.Terms{
		Run: r.run, Spec: sha256.Sum256(r.terms.GetSpec()), Group: g, Round: r.number, Fence: r.masked.GetFence(),
		Counter: r.masked.GetCounter(), Question: sha256.Sum256(r.raw), Entries: entries,
		Share: share, Members: r.masked.GetMembers(),
	}, func(masking.Digest) error { return nil })
	if err != nil {
		return nil, err
	}
	values, err := a.Mask(m.vector)
	if err != nil {
		return nil, err
	}
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
		Run: r.run, Round: r.number, Values: values}}}, nil
}
