package aggregator

import (
	"context"
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// four are the sites of most tests. The quorum is three; one member may collude, so two shares suffice.
var four = []string{"east", "north", "south", "west"}

// Whatever one of four members does at a step, the sum of the others opens with a share of noise from each.
func TestMaskedSumsOpenWithoutAMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, roomy)
	type lie func(r *maskedRun, m *conclavev1.WorkRequest) *conclavev1.WorkRequest
	changed := func(change func(*conclavev1.WorkRequest)) lie {
		return func(_ *maskedRun, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
			m = proto.Clone(m).(*conclavev1.WorkRequest) // a party keeps its messages
			change(m)
			return m
		}
	}
	resized := func(more int) lie { return changed(func(m *conclavev1.WorkRequest) { resize(m, more) }) }
	agreeing := func(change func(*conclavev1.Agreed)) lie {
		return changed(func(m *conclavev1.WorkRequest) { change(m.GetAgreed()) })
	}
	doubting := func(sites ...string) lie {
		return func(r *maskedRun, _ *conclavev1.WorkRequest) *conclavev1.WorkRequest {
			m := roundtest.Refusing("no")(r.round(0))[0]
			m.GetRefusal().Doubted = sites
			return m
		}
	}
	type agreed = conclavev1.Agreed
	type revealed = conclavev1.Revealed
	revealing := func(change func(*conclavev1.Revealed)) lie {
		return changed(func(m *conclavev1.WorkRequest) { change(m.GetRevealed()) })
	}
	type runKey = conclavev1.RunKey
	permitting := func(change func(*conclavev1.RunKey)) lie {
		return changed(func(m *conclavev1.WorkRequest) { change(m.GetPermitted().GetKey()) })
	}
	leaves := func(r *maskedRun, _ *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		r.members["south"].life.end()
		return nil
	}
	silent := func(*maskedRun, *conclavev1.WorkRequest) *conclavev1.WorkRequest { return nil }
	refuses := func(r *maskedRun, _ *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		return roundtest.Refusing("no")(r.round(0))[0]
	}
	for name, bad := range map[string]struct {
		stage string
		lie   lie
		// attempts is how often the other members are asked.
		attempts int
	}{
		"shows a large key":        {atPermit, permitting(func(k *runKey) { k.Identity = make([]byte, 1<<20) }), 1},
		"shows another key":        {atPermit, permitting(func(k *runKey) { k.Exchange[0]++ }), 1},
		"shows no key":             {atPermit, permitting(func(k *runKey) { proto.Reset(k) }), 1},
		"leaves before its answer": {atAnswer, leaves, 1},
		"leaves before it agrees":  {atAgreement, leaves, 2},
		"leaves before its seeds":  {atSeeds, leaves, 2},
		"does not answer in time":  {atAnswer, silent, 1},
		"does not agree in time":   {atAgreement, silent, 2},
		"does not reveal in time":  {atSeeds, silent, 2},
		"refuses to answer":        {atAnswer, refuses, 1},
		"refuses to agree":         {atAgreement, refuses, 2},
		"refuses to reveal":        {atSeeds, refuses, 2},
		"sends too few numbers":    {atAnswer, resized(-1), 1},
		"sends too many numbers":   {atAnswer, resized(1), 1},
		"sends no numbers":         {atAnswer, resized(-maskedEntries), 1},
		"makes no tags":            {atAgreement, agreeing(func(m *agreed) { m.Tags = nil }), 2},
		"makes a tag too many":     {atAgreement, agreeing(func(m *agreed) { m.Tags = append(m.Tags, m.Tags[0]) }), 2},
		"makes short tags":         {atAgreement, agreeing(func(m *agreed) { m.Tags[1] = m.Tags[1][:16] }), 2},
		"makes long tags":          {atAgreement, agreeing(func(m *agreed) { m.Tags[0] = make([]byte, 1<<20) }), 2},
		"makes wrong tags for all": {atAgreement, agreeing(func(m *agreed) {
			for _, tag := range m.Tags {
				tag[9]++
			}
		}), 2},
		"makes wrong tags for two": {atAgreement, agreeing(func(m *agreed) {
			m.Tags[0], m.Tags[1] = m.Tags[1], m.Tags[0]
		}), 2},
		"doubts all others":           {atSeeds, doubting("east", "north", "west"), 2},
		"doubts two and itself":       {atSeeds, doubting("east", "south", "west"), 2},
		"doubts nobody that is in it": {atSeeds, doubting("xanadu", "south"), 2},
		"reveals a short seed":        {atSeeds, revealing(func(m *revealed) { m.Own = []byte{1} }), 2},
		"reveals a long seed":         {atSeeds, revealing(func(m *revealed) { m.Own = make([]byte, 1<<20) }), 2},
		"reveals a seed of nobody":    {atSeeds, revealing(func(m *revealed) { m.Lost = make([][]byte, 1) }), 2},
		"sends numbers for a name":    {atAgreement, numbers, 2},
		"sends numbers for its seed":  {atSeeds, numbers, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seconds := 60.
			if name[:4] == "does" {
				seconds = 15 // only the deadline ends this step
			}
			r := c.maskedRun(t, seconds, 3, 1, four...)
			r.members["south"].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
				if stage == bad.stage {
					m = bad.lie(r, m)
				}
				return m
			}
			r.join(four...)
			r.opened(r.student.mustAsk(t, r.round(0)), "east", "north", "west")
			for _, site := range []string{"east", "north", "west"} {
				if n := r.members[site].life.attempts(); n != bad.attempts {
					t.Errorf("%s was asked %d times, want %d", site, n, bad.attempts)
				}
			}
			if entries := r.student.ledger(t, r.spec.Name); len(entries) != 1 {
				t.Errorf("the ledger has %d releases", len(entries))
			}
		})
	}
}

// numbers sends a vector where another message is due.
func numbers(r *maskedRun, _ *conclavev1.WorkRequest) *conclavev1.WorkRequest {
	return roundtest.Sums(make([]int64, maskedEntries))(r.round(0))[0]
}

// resize adds entries to a sum.
func resize(m *conclavev1.WorkRequest, more int) {
	sum := m.GetSum()
	values := make([]int64, len(sum.GetValues())+more)
	copy(values, sum.GetValues())
	sum.Values = values
}

// Of four sites each has two partners if nobody colludes, and the one opposite is none. Whichever refuses to answer,
// the sum of the others opens: two of them reveal a seed that they share with it, and the third has none.
func TestMaskedSumsOpenAmongPartners(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, roomy)
	for at, lost := range four {
		r := c.maskedRun(t, 60, 3, 0, four...)
		r.members[lost].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
			if stage == atAnswer {
				m = roundtest.Refusing("no")(r.round(0))[0]
			}
			return m
		}
		seeds := make([]int, len(four))
		for i, site := range four {
			if site != lost {
				r.members[site].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
					if stage == atSeeds {
						seeds[i] = len(m.GetRevealed().GetLost()) // read once the sum is released
					}
					return m
				}
			}
		}
		r.join(four...)
		r.opened(r.student.mustAsk(t, r.round(0)), slices.DeleteFunc(slices.Clone(four), func(site string) bool {
			return site == lost
		})...)
		want := []int{1, 1, 1, 1}
		want[at], want[(at+2)%4] = 0, 0
		if !slices.Equal(seeds, want) {
			t.Errorf("without %s the others reveal %v seeds, want %v", lost, seeds, want)
		}
		for _, site := range four {
			r.members[site].life.end()
		}
	}
}

// A run whose quorum is all of its sites ends when one of them spoils each attempt: no peer waits for it.
func TestAMaskedRunEndsWithoutItsQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 2, 1, "east", "north")
	r.members["north"].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage == atSeeds {
			m = numbers(r, m)
		}
		return m
	}
	r.join("east", "north")
	r.student.refused(t, r.round(0), codes.FailedPrecondition, "2 of its 2 sites", "north/n spoiled an attempt")
	if n := r.members["east"].life.attempts(); n != 1 {
		t.Errorf("the other one was asked %d times", n)
	}
	if entries := r.student.ledger(t, r.spec.Name); len(entries) != 0 {
		t.Errorf("the ledger has %d releases", len(entries))
	}
}

// A round continues as long as its members return, however many attempts fail to open: such attempts cost nothing.
func TestAMaskedRoundOpensAfterManyAttempts(t *testing.T) {
	t.Parallel()
	const broken = 7
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 2, 1, "east", "north")
	north, left, leaves := r.members["north"], make(chan struct{}), 0
	north.at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage != atAgreement || leaves == broken {
			return m
		}
		leaves++
		north.life.end()
		left <- struct{}{}
		return nil
	}
	r.join("east", "north")
	released := releasing(t, r.student, r.round(0))
	for range broken {
		testkit.Receive(t, left)
		testkit.Receive(t, north.life.ended)
		r.join("north")
	}
	r.opened(testkit.Receive(t, released), "east", "north")
	if n := r.members["east"].life.attempts(); n != broken+1 {
		t.Errorf("the other one was asked %d times", n)
	}
}

// When members refuse a round, it ends with their reason, because a retry cannot help.
func TestAMaskedRoundThatMembersRefuse(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 3, 1, four...)
	for _, site := range []string{"south", "west"} {
		r.members[site].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
			if stage == atAnswer {
				m = roundtest.Refusing("attempted too often")(r.round(0))[0]
			}
			return m
		}
	}
	r.join(four...)
	r.student.refused(t, r.round(0), codes.FailedPrecondition, "was rejected",
		"south/n refused: attempted too often")
	if n := r.members["east"].life.attempts(); n < 2 || n > 10 {
		t.Errorf("a member was asked %d times", n)
	}
}

// A site that takes its permission back between two rounds of a masked run is asked again. If it refuses, the run ends
// before anybody is sent the round: what was charged stays, and nothing is added. If its people must decide again, the
// round waits for them.
func TestASiteTakesBackItsPermissionOfAMaskedRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	for name, waits := range map[string]bool{"denied": false, "expired": true} {
		t.Run(name, func(t *testing.T) {
			r := c.maskedRun(t, 60, 2, 1, "east", "north")
			north, permits := r.members["north"], make(chan bool, 1)
			permits <- true
			north.at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
				if stage == atPermit && !<-permits {
					m = refusal(payload.Key{Run: r.spec.Name, Number: 1}, waits, name)
				}
				return m
			}
			r.join("east", "north")
			r.opened(r.student.mustAsk(t, r.round(0)), "east", "north")
			ready := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{
				Ready: &conclavev1.Ready{Run: r.spec.Name}}}
			d := c.server.rounds.Datasets[r.spec.Dataset]
			becomes := func(want peer.Permission) {
				testkit.Eventually(t, "the permission", func() bool {
					return slices.ContainsFunc(d.Live(), func(n *peer.Node) bool {
						is, _ := n.Permission(r.spec.Name, 0)
						return n.ID.Site == "north" && is == want
					})
				})
			}
			mustSend(t, north.life.stream, ready)
			becomes(peer.NotAsked)
			permits <- false
			if waits {
				released := releasing(t, r.student, r.round(1))
				becomes(peer.Undecided)
				permits <- true
				mustSend(t, north.life.stream, ready)
				r.opened(testkit.Receive(t, released), "east", "north")
				return
			}
			r.student.refused(t, r.round(1), codes.FailedPrecondition, "2 of its 2 sites", "north/n refused: denied")
			if n := r.members["east"].life.attempts(); n != 1 {
				t.Errorf("the other one was sent %d rounds", n)
			}
			if all := r.student.ledger(t, r.spec.Name); len(all) != 1 || all[0].Type != ledger.EntryRelease {
				t.Errorf("the ledger has %+v", all)
			}
		})
	}
}

// A wrong seed spoils the total but stops nobody: the round is charged as usual.
func TestASeedThatIsAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 3, 1, four...)
	r.members["north"].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage == atSeeds {
			m = proto.Clone(m).(*conclavev1.WorkRequest)
			m.GetRevealed().Own[0]++
		}
		return m
	}
	r.join(four...)
	release := r.student.mustAsk(t, r.round(0))
	off := 0
	for entry, v := range release.GetSum().GetValues() {
		want := int64(0)
		for _, m := range r.members {
			want += m.vector[entry]
		}
		if math.Abs(float64(v-want)) > 1<<40 {
			off++
		}
	}
	if off < maskedEntries/2 || len(r.student.ledger(t, r.spec.Name)) != 1 {
		t.Errorf("%d entries are random, and the ledger has %v", off, r.student.ledger(t, r.spec.Name))
	}
}

// An answer that arrives after the survivor list is in no sum, and is no offence: the next round includes its sender.
func TestALateMaskedAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 15, 3, 1, four...)
	south, east := r.members["south"], r.members["east"]
	late, goOn := make(chan *conclavev1.WorkRequest, 1), make(chan struct{})
	south.at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage == atAnswer && len(late) == 0 {
			late <- m
			return nil
		}
		return m
	}
	east.at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage == atAgreement && m.GetAgreed().GetRound() == 0 {
			<-goOn
		}
		return m
	}
	r.join(four...)
	released := releasing(t, r.student, r.round(0))
	testkit.Eventually(t, "a list of survivors", func() bool {
		return east.life.count(func(m *conclavev1.WorkResponse) bool { return m.GetSurvivors() != nil }) == 1
	})
	answer := <-late
	answer.Attempt = south.life.attemptOf(atAnswer)
	late <- answer // so that it answers the next round
	mustSend(t, south.life.stream, answer)
	close(goOn)
	r.opened(testkit.Receive(t, released), "east", "north", "west")
	r.opened(r.student.mustAsk(t, r.round(1)), four...)
}

// A round waits for a quorum of sites, and opens when the quorum is there.
func TestAMaskedRoundWaitsForItsQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 3, 1, four...)
	r.join("east", "north")
	progress := make(chan *conclavev1.Progress, 1000)
	released := make(chan *conclavev1.Release, 1)
	go func() {
		release, err := r.student.ask(testkit.Within(t), r.round(0), func(p *conclavev1.Progress) { progress <- p })
		if err != nil {
			t.Error(err)
		}
		released <- release
	}()
	for p := testkit.Receive(t, progress); !p.GetWaitingForQuorum() || !slices.Contains(p.GetWaitingFor(),
		"site south, which is not connected"); p = testkit.Receive(t, progress) {
	}
	if r.members["east"].life.attempts() != 0 {
		t.Error("a member was asked for an answer without a quorum")
	}
	r.join("west")
	r.opened(testkit.Receive(t, released), "east", "north", "west")
}

// A member's site may have to decide before it opens, for example while its ledger is unavailable. The round waits
// for that member and opens when it is ready.
func TestAMaskedRoundWaitsForASiteThatCannotPay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 2, 1, "east", "north")
	refused := false
	r.members["north"].at = func(stage string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
		if stage == atSeeds && !refused {
			refused = true
			m = roundtest.Refusing("its ledger cannot be used")(r.round(0))[0]
			m.GetRefusal().Waiting = true
		}
		return m
	}
	r.join("east", "north")
	progress, released := make(chan *conclavev1.Progress, 1000), make(chan *conclavev1.Release, 1)
	go func() {
		release, err := r.student.ask(testkit.Within(t), r.round(0), func(p *conclavev1.Progress) { progress <- p })
		if err != nil {
			t.Error(err)
		}
		released <- release
	}()
	for p := testkit.Receive(t, progress); !slices.Contains(p.GetWaitingFor(),
		"north/n its ledger cannot be used"); p = testkit.Receive(t, progress) {
	}
	mustSend(t, r.members["north"].life.stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Ready{
		Ready: &conclavev1.Ready{Run: r.spec.Name}}})
	r.opened(testkit.Receive(t, released), "east", "north")
	if n := r.members["east"].life.attempts(); n != 2 {
		t.Errorf("the other one was asked %d times", n)
	}
}

// A masked run asks non-members nothing and rejects their messages. A second node of a site stops the run.
func TestStrangersAndSecondNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 2, 1, "east", "north")
	stranger := c.node(t, hello(r.spec.Dataset, "south", "n", 1), roundtest.Silent)
	r.join("east", "north")
	for _, m := range []*conclavev1.WorkRequest{
		{Message: &conclavev1.WorkRequest_Agreed{Agreed: &conclavev1.Agreed{Run: r.spec.Name}}, Attempt: 3},
		{Message: &conclavev1.WorkRequest_Revealed{Revealed: &conclavev1.Revealed{Run: r.spec.Name}}, Attempt: 4},
		roundtest.Sums(make([]int64, maskedEntries))(r.round(0))[0],
	} {
		mustSend(t, stranger.stream, m)
	}
	r.opened(r.student.mustAsk(t, r.round(0)), "east", "north")
	if len(stranger.permits)+len(stranger.rounds) != 0 {
		t.Error("a stranger was asked")
	}
	second := c.node(t, hello(r.spec.Dataset, "north", "second", 1), roundtest.Silent)
	r.student.refused(t, r.round(1), codes.FailedPrecondition, `site "north" has two nodes`, "north/second")
	second.leave()
	testkit.Eventually(t, "the second node is gone", func() bool {
		return len(c.server.rounds.Datasets[r.spec.Dataset].Live()) == 3
	})
	r.opened(r.student.mustAsk(t, r.round(1)), "east", "north")
}

// A release is repeated byte by byte without asking members again. An abandoned round is asked again with another
// question, and no answer to the first one counts.
func TestMaskedRoundsAreAskedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 3, 1, four...)
	for _, stage := range []string{atAnswer, atAgreement, atSeeds} {
		held, late := make(chan struct{}), make(chan *conclavev1.WorkRequest, 1)
		r.members["west"].at = func(at string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
			if at != stage || len(late) > 0 {
				return m
			}
			late <- m
			close(held)
			return nil
		}
		number := uint64(len(r.student.ledger(t, r.spec.Name)))
		r.join(four...)
		asking, giveUp := context.WithCancel(testkit.Within(t))
		gone := make(chan error, 1)
		go func() {
			_, err := r.student.ask(asking, r.round(number), nil)
			gone <- err
		}()
		testkit.Receive(t, held)
		giveUp()
		roundtest.WantStatus(t, testkit.Receive(t, gone), codes.Canceled)
		testkit.Eventually(t, "a round that nobody waits for", func() bool {
			return c.server.rounds.Waiting(t.Context(), r.spec.Name) == 0
		})
		other := r.round(number)
		other.Params = []byte("another question")
		first := r.student.mustAsk(t, other)
		r.opened(first, four...)
		m := <-late
		m.Attempt = r.members["west"].life.attemptOf(stage)
		mustSend(t, r.members["west"].life.stream, m)
		asked := r.members["west"].life.attempts()
		if again := r.student.mustAsk(t, other); !proto.Equal(again, first) {
			t.Errorf("%s: released is %v, asked again %v", stage, first, again)
		}
		if n := r.members["west"].life.attempts(); n != asked || asked != 2 {
			t.Errorf("%s: a member was asked %d times, and again %d", stage, asked, n)
		}
	}
}

// attemptOf is the first attempt in which the member was asked at a stage.
func (l *life) attemptOf(stage string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got {
		if stage == atAnswer && m.GetMasked() != nil || stage == atAgreement && m.GetSurvivors() != nil ||
			stage == atSeeds && m.GetAgreement() != nil {
			return m.GetAttempt()
		}
	}
	return 0
}

// If an aggregator stops in the middle of an attempt, another one cannot open that attempt. It begins its own, which
// is equally valid. Members keep their keys meanwhile.
func TestAMaskedRoundOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	r := c.maskedRun(t, 60, 3, 1, four...)
	for number, stage := range []string{atAnswer, atAgreement, atSeeds} {
		held, goOn := make(chan struct{}), make(chan struct{})
		first := true
		r.members["west"].at = func(at string, m *conclavev1.WorkRequest) *conclavev1.WorkRequest {
			if at == stage && first {
				first = false
				close(held)
				<-goOn
			}
			return m
		}
		r.join(four...)
		outcome := inBackground(t, r.student, r.round(uint64(number)))
		testkit.Receive(t, held)
		stopped := c.stop
		ended := make(chan error, 1)
		go func() { ended <- stopped() }()
		if err := testkit.Receive(t, outcome); err == nil {
			t.Fatalf("%s: released without a member", stage)
		}
		close(goOn)
		testkit.Must(t, testkit.Receive(t, ended))
		c.start(Options{})
		r.student = c.student(t)
		r.join(four...)
		release := r.student.mustAsk(t, r.round(uint64(number)))
		r.opened(release, four...)
		if entries := r.student.ledger(t, r.spec.Name); len(entries) != number+1 {
			t.Errorf("%s: the ledger has %d releases", stage, len(entries))
		}
	}
}
