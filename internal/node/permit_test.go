package node

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// permitFor is the permit that precedes a round.
func permitFor(t testing.TB, r *conclavev1.Round) *conclavev1.Permit {
	t.Helper()
	raw, err := proto.Marshal(r)
	testkit.Must(t, err)
	digest, err := hex.DecodeString(question.Digest(raw))
	testkit.Must(t, err)
	return &conclavev1.Permit{
		Run: r.Run, Round: r.Number, Kind: r.Kind, Planned: r.Planned, Queries: r.GetVotes().GetQueries(),
		Question: digest,
	}
}

// inquire asks a node whether it may answer a round.
func inquire(t testing.TB, n *Node, p *conclavev1.Permit, terms *conclavev1.RoundTerms) *conclavev1.WorkRequest {
	t.Helper()
	in := newInbox()
	testkit.Must(t, n.dispatch(&conclavev1.WorkResponse{Attempt: 3, Terms: terms,
		Message: &conclavev1.WorkResponse_Permit{Permit: p}}, &assembly{}, in))
	todo, ok := in.beside.take()
	if !ok {
		t.Fatal("the permit did not arrive")
	}
	m := n.reply(todo)
	if m.Attempt != 3 {
		t.Errorf("attempt %d", m.Attempt)
	}
	return m
}

// A permit is decided like its round, and costs nothing.
func TestAPermitIsDecidedAsItsRoundIs(t *testing.T) {
	table := questiontest.SmallTable(t, 80, 1)
	r := voteRound("r", 1)
	const byHand = "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [pategan], approval: by-hand}]"
	for name, c := range map[string]struct {
		policy string
		sigma  float64
		change func(*conclavev1.RunSpec)
		ask    func(*conclavev1.Round)
		may    bool
	}{
		"allowed":             {lenient, 50, nil, nil, true},
		"waits":               {byHand, 50, nil, nil, false},
		"broken policy":       {"datasets: [", 50, nil, nil, false},
		"another pipeline":    {lenient, 50, func(s *conclavev1.RunSpec) { s.Pipeline = "embed" }, nil, false},
		"another stage":       {lenient, 50, fitted, nil, false},
		"another dataset":     {lenient, 50, func(s *conclavev1.RunSpec) { s.Dataset = "e" }, nil, false},
		"another run's terms": {lenient, 50, func(s *conclavev1.RunSpec) { s.Name = "q" }, nil, false},
		"over the limit":      {lenient, 1e-3, nil, nil, false},
		"beyond the plan":     {lenient, 50, func(s *conclavev1.RunSpec) { s.Plan[0].Count = 1 }, nil, false},
		"no entry of it":      {lenient, 50, nil, func(r *conclavev1.Round) { r.Planned = 7 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, policed(t, smallConfig(t, 4), c.policy), table)
			asked := proto.Clone(r).(*conclavev1.Round)
			if c.ask != nil {
				c.ask(asked)
			}
			terms := termsFor(t, n, asked, c.sigma, c.change)
			said := inquire(t, n, permitFor(t, asked), terms)
			if status, err := n.policy.enforcer.Status(); err != nil || status.EpsilonSpent != 0 {
				t.Errorf("%+v was charged for a permit, %v", status, err)
			}
			if c.may {
				if p := said.GetPermitted(); p.GetRun() != "r" || p.GetRound() != 1 {
					t.Errorf("the node says %v", said)
				}
				if exists(n.cfg, "run-r.safetensors") {
					t.Error("teachers learned")
				}
			}
			answer := askUnder(t, n, asked, terms)
			if diff := cmp.Diff(answer.GetRefusal(), said.GetRefusal(), protocmp.Transform()); diff != "" ||
				(answer.GetRefusal() == nil) != c.may {
				t.Errorf("the round is answered %v\n%s", answer, diff)
			}
		})
	}
	// A charged question is free, and permitted, also at the limit.
	n := start(t, policed(t, smallConfig(t, 4), lenient), table)
	terms := termsFor(t, n, r, 20, nil)
	if m := askUnder(t, n, r, terms); m.GetVotes() == nil {
		t.Fatalf("not answered: %v", m)
	}
	for number := uint64(2); ; number++ {
		if m := askUnder(t, n, voteRound("r", number), terms); m.GetRefusal() != nil {
			if m := inquire(t, n, permitFor(t, voteRound("r", number)), terms); m.GetRefusal() == nil {
				t.Errorf("beyond the limit the node says %v", m)
			}
			break
		}
	}
	if m := inquire(t, n, permitFor(t, r), terms); m.GetPermitted() == nil {
		t.Errorf("what was charged is answered %v", m)
	}
	// Without a policy everything is permitted.
	n = start(t, smallConfig(t, 4), table)
	if m := inquire(t, n, permitFor(t, r), nil); m.GetPermitted() == nil {
		t.Errorf("the node says %v", m)
	}
}

// A permit is answered while teachers work on a round, whose duration may depend on records, and so is a decision of
// the site's people.
func TestAPermitWaitsForNoTeacher(t *testing.T) {
	t.Parallel()
	f := newFakeAggregator(t)
	c := policed(t, f.watchedConfig(4), "datasets: [{name: d, epsilon: 9, delta: 1e-5, "+
		"pipelines: [pategan, dpgan], approval: by-hand}]")
	n := start(t, c, questiontest.SmallTable(t, 80, 1))
	reached, open := held(n)
	run(t, n)
	j := f.next()
	inquire := func(r *conclavev1.Round, terms *conclavev1.RoundTerms) *conclavev1.WorkRequest {
		t.Helper()
		j.send(&conclavev1.WorkResponse{Attempt: 1, Terms: terms,
			Message: &conclavev1.WorkResponse_Permit{Permit: permitFor(t, r)}})
		return j.reply()
	}
	people := sitepolicy.New(c.PolicyOptions(n.site.Schema.SHA256))
	approved := func(run string) {
		t.Helper()
		_, err := people.Decide(run, "", sitepolicy.Decision{Approve: true, By: "ann"})
		testkit.Must(t, err)
		if m := j.reply(); m.GetReady().GetRun() != run {
			t.Fatalf("the node says %v", m)
		}
	}
	long, other := discriminatorRound("long", 0, nil), voteRound("other", 0)
	longTerms := sampleTerms(t, n, long, 0.5, 2)
	if m := inquire(long, longTerms); !m.GetRefusal().GetWaiting() {
		t.Fatalf("the node says %v", m)
	}
	approved("long")
	j.askUnder(long, longTerms, 2)
	testkit.Receive(t, reached)
	for number := range uint64(20) { // waiting rounds do not delay it
		j.ask(voteRound("waits", number))
	}
	terms := termsFor(t, n, other, 50, nil)
	if m := inquire(other, terms); !m.GetRefusal().GetWaiting() {
		t.Errorf("while it works the node says %v", m)
	}
	approved("other")
	if m := inquire(other, terms); m.GetPermitted() == nil {
		t.Errorf("while it works the node says %v", m)
	}
	open()
	if m := j.reply(); m.GetSum() == nil {
		t.Errorf("the round is answered %v", m)
	}
}

// A permit waits in the inbox until it is answered, or its run ends.
func TestPermitsGoWithTheirRun(t *testing.T) {
	in := newInbox()
	for _, run := range []string{"r", "q"} {
		testkit.Must(t, in.putBeside(task{run: run, permit: &conclavev1.Permit{}}))
		testkit.Must(t, in.put(task{run: run}))
	}
	in.withdraw("r", 0)
	in.over("q")
	if todo, ok := in.beside.take(); !ok || todo.run != "r" || in.beside.bytes != 0 {
		t.Errorf("%+v is left", todo)
	}
	if todo, ok := in.take(); ok || in.bytes != 0 {
		t.Errorf("%+v is left, of %d", todo, in.bytes)
	}
}
