package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// pair is a masked run of the node of site north and a party of site south, which the test plays.
type pair struct {
	t     testing.TB
	c     Config
	certs string
	south *masking.Party
	group masking.Group
	fence uint64
}

func keyAt(t testing.TB, folder string) masking.Fingerprint {
	t.Helper()
	signer, err := (&masks{keyFile: certs.IssuedFiles(folder, certs.RoleNode, "north").Key}).signer()
	testkit.Must(t, err)
	f, err := masking.ParseFingerprint(testkit.Value(certs.Fingerprint(signer.Public())))
	testkit.Must(t, err)
	return f
}

func newPair(t testing.TB, policy string) *pair {
	t.Helper()
	p := &pair{t: t, c: smallConfig(t, 4), certs: certstest.New(t)}
	if policy != "" {
		p.c = policed(t, p.c, policy)
	}
	p.c.TLS = certs.IssuedFiles(p.certs, certs.RoleNode, "north")
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	p.south = testkit.Value(masking.NewParty("south", key))
	south := testkit.Value(masking.ParseFingerprint(testkit.Value(certs.Fingerprint(key.Public()))))
	p.group = masking.Group{Quorum: 2, Colluding: 1,
		Members: []masking.Member{{Site: "north", Key: keyAt(t, p.certs)}, {Site: "south", Key: south}}}
	return p
}

// node begins, or begins again.
func (p *pair) node() *Node { return start(p.t, p.c, questiontest.SmallTable(p.t, 80, 1)) }

// terms are those of the run, in which two sums are planned.
func (p *pair) terms(n *Node, r *conclavev1.Round) *conclavev1.RoundTerms {
	return termsFor(p.t, n, r, 1, func(s *conclavev1.RunSpec) {
		s.Epsilon, s.Pipeline, s.Masked = 9, "embed", p.group.Wire()
		s.Plan = []*conclavev1.Planned{{Kind: "embedding", Count: 2,
			Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 5, Sensitivity: 1}}}
	})
}

// attempt asks for a permit, and then a round. The reply is that to either.
func (p *pair) attempt(n *Node, number uint64) *conclavev1.WorkRequest {
	p.t.Helper()
	r := embeddingRound("r", number)
	terms := p.terms(n, r)
	permitted := inquire(p.t, n, permitFor(p.t, r), terms)
	if permitted.GetPermitted() == nil {
		return permitted
	}
	south := testkit.Value(p.south.Key("r", sha256.Sum256(terms.GetSpec()), p.group))
	p.fence++
	in, parts := newInbox(), assembly{}
	for i, m := range messagesOf(p.t, r, terms, p.fence) {
		if i == 0 {
			m.Masked = &conclavev1.MaskedRound{Fence: p.fence, Counter: 1,
				Members: []*conclavev1.RunKey{permitted.GetPermitted().GetKey(), south}}
		}
		testkit.Must(p.t, n.dispatch(m, &parts, in))
	}
	todo, ok := in.take()
	if !ok {
		p.t.Fatal("the round did not arrive")
	}
	reply := n.reply(todo)
	if reply.GetSum() != nil {
		same := testkit.Value(termsOf(todo, p.group, n.kinds, n.site.Public))
		a := testkit.Value(p.south.Begin(same, func(masking.Digest) error { return nil }))
		testkit.Value(a.Mask(make([]int64, same.Entries)))
	}
	return reply
}

// agree has both agree to the answers of the newest attempt, and returns the tags for the node.
func (p *pair) agree(n *Node, number uint64) [][]byte {
	p.t.Helper()
	both := []string{"north", "south"}
	m := p.say(n, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Survivors{
		Survivors: &conclavev1.Survivors{Run: "r", Round: number, Sites: both}}})
	if m.GetAgreed() == nil {
		p.t.Fatalf("the node does not agree: %v", m)
	}
	return testkit.Value(p.south.Agree("r", number, both))
}

// reveal has the node open its answer to the newest attempt.
func (p *pair) reveal(n *Node, number uint64, agreed [][]byte) *conclavev1.WorkRequest {
	p.t.Helper()
	return p.say(n, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Agreement{
		Agreement: &conclavev1.Agreement{Run: "r", Round: number, Tags: agreed}}})
}

func (p *pair) say(n *Node, m *conclavev1.WorkResponse) *conclavev1.WorkRequest {
	p.t.Helper()
	in, parts := newInbox(), assembly{}
	testkit.Must(p.t, n.dispatch(m, &parts, in))
	todo, ok := in.beside.take()
	if !ok {
		p.t.Fatal("the message did not arrive")
	}
	return n.reply(todo)
}

// charged is how often the site's ledger on the disk has charged the run, as another process reads it.
func (p *pair) charged() int {
	p.t.Helper()
	o := p.c.PolicyOptions("")
	o.ReadOnly = true
	status, err := sitepolicy.New(o).Status()
	testkit.Must(p.t, err)
	if len(status.Runs) == 0 {
		return 0
	}
	return status.Runs[0].Charges
}

const masked = "datasets: [{name: d, epsilon: 9, delta: 1e-5, pipelines: [embed], approval: by-hand, masked: true, " +
	"least_sites: 2, least_colluding: 1}]"

// approved is a pair whose run a person at the site approved.
func approved(t testing.TB) *pair {
	t.Helper()
	p := newPair(t, masked)
	n := p.node()
	if m := p.attempt(n, 0).GetRefusal(); !m.GetWaiting() {
		t.Fatalf("before it is approved: %v", m)
	}
	run, err := n.policy.enforcer.Decide("r", "", sitepolicy.Decision{Approve: true, By: "ann"})
	testkit.Must(t, err)
	if run.Spec.Masked == nil || run.Spec.Masked.Members[1] != p.group.Members[1] || run.RevealsAtMost != 4 {
		t.Fatalf("a person approves %+v", run)
	}
	return p
}

// An attempt is charged on the disk before it is opened, each by itself, also by a node that starts again: four times a
// round, and no more. What is not opened costs nothing, however often it is asked and agreed to.
func TestAMaskedAnswerIsChargedBeforeItIsOpened(t *testing.T) {
	p := approved(t)
	n, opened, seeds := p.node(), 0, map[string]bool{}
	for number := range uint64(2) {
		for opening := range 1 + masking.Retries {
			if opening == 2 {
				n = p.node() // what it has in memory is gone
			}
			for unopened := range 5 {
				if m := p.attempt(n, number); m.GetSum() == nil {
					t.Fatalf("attempt %d at round %d: %v", unopened, number, m)
				}
				p.agree(n, number)
			}
			if got := p.charged(); got != opened {
				t.Fatalf("%d were opened, and %d are on the disk", opened, got)
			}
			agreed := p.agree(n, number)
			for range 2 { // the second time it is the same
				seeds[string(p.reveal(n, number, agreed).GetRevealed().GetOwn())] = true
			}
			if opened++; p.charged() != opened || len(seeds) != opened {
				t.Fatalf("%d were opened: %d seeds were revealed, and %d are on the disk", opened, len(seeds),
					p.charged())
			}
		}
		for range 2 {
			if m := p.attempt(n, number).GetRefusal(); !strings.Contains(m.GetReason(), "were revealed 4 times here") {
				t.Fatalf("an attempt after four openings of round %d: %v", number, m)
			}
			n = p.node()
		}
	}
	if m := p.attempt(n, 2).GetRefusal(); !strings.Contains(m.GetReason(), "all questions that run r planned") {
		t.Errorf("a third round: %v", m)
	}
}

// Two processes of one site share its ledger: together they open no more than one. An answer of one is opened by no
// other.
func TestTwoProcessesOfASiteOpenNoMoreThanOne(t *testing.T) {
	p := approved(t)
	nodes, seeds := [2]*Node{p.node(), p.node()}, map[string]bool{}
	for opened := range 1 + masking.Retries {
		n, other := nodes[opened%2], nodes[1-opened%2]
		if m := p.attempt(n, 0); m.GetSum() == nil {
			t.Fatal(m)
		}
		agreed := p.agree(n, 0)
		own := p.reveal(other, 0, agreed).GetRevealed().GetOwn() // none, or of its own answer of before
		if own != nil && !seeds[string(own)] || p.charged() != opened {
			t.Errorf("another process opens the answer: %x, charged %d times", own, p.charged())
		}
		m := p.reveal(n, 0, agreed)
		if seeds[string(m.GetRevealed().GetOwn())] = true; len(seeds) != opened+1 || p.charged() != opened+1 {
			t.Fatalf("opening %d: %v, charged %d times", opened, m, p.charged())
		}
	}
	for _, n := range nodes {
		if m := p.attempt(n, 0).GetRefusal(); !strings.Contains(m.GetReason(), "were revealed 4 times here") {
			t.Errorf("after four openings: %v", m)
		}
	}
}

// Two attempts may be answered where one more opening has room: of the bound, and of the limit, it is what is opened
// first that gets it.
func TestRoomIsFoundAgainWhenAnAnswerIsOpened(t *testing.T) {
	p := approved(t)
	nodes := [2]*Node{p.node(), p.node()}
	for range masking.Retries {
		p.attempt(nodes[0], 0)
		if m := p.reveal(nodes[0], 0, p.agree(nodes[0], 0)); m.GetRevealed() == nil {
			t.Fatal(m)
		}
	}
	var agreed [2][][]byte
	for i, n := range nodes {
		if m := p.attempt(n, 0); m.GetSum() == nil {
			t.Fatal(m)
		}
		agreed[i] = p.agree(n, 0)
	}
	if m := p.reveal(nodes[1], 0, agreed[1]); m.GetRevealed() == nil {
		t.Fatal(m)
	}
	if m := p.reveal(nodes[0], 0, agreed[0]).GetRefusal(); !strings.Contains(m.GetReason(), "were revealed 4 times") {
		t.Errorf("a fifth opening: %v", m)
	}
	if got := p.charged(); got != 4 {
		t.Errorf("%d openings were charged", got)
	}
}

// Where the ledger cannot be used nothing is opened. It is the site's to fix, and then the same is opened.
func TestAMaskedAnswerThatCannotBeChargedIsNotOpened(t *testing.T) {
	p := approved(t)
	n := p.node()
	if m := p.attempt(n, 0); m.GetSum() == nil {
		t.Fatal(m)
	}
	agreed := p.agree(n, 0)
	ledger := p.c.LedgerPath()
	testkit.Must(t, os.Rename(ledger, ledger+".away"))
	if m := p.reveal(n, 0, agreed).GetRefusal(); !m.GetWaiting() || strings.Contains(m.GetReason(), ledger) {
		t.Fatalf("without a ledger: %v", m)
	}
	if m := p.attempt(n, 1).GetRefusal(); !m.GetWaiting() {
		t.Fatalf("without a ledger an attempt is answered with %v", m)
	}
	testkit.Must(t, os.Rename(ledger+".away", ledger))
	if got := p.charged(); got != 0 {
		t.Errorf("%d charges, and nothing was opened", got)
	}
	if m := p.reveal(n, 0, agreed); m.GetRevealed() == nil || p.charged() != 1 {
		t.Errorf("with its ledger: %v, charged %d times", m, p.charged())
	}
}

// What a person forbids after the answer is not opened.
func TestARunThatIsDeniedIsNotOpened(t *testing.T) {
	p := approved(t)
	n := p.node()
	p.attempt(n, 0)
	agreed := p.agree(n, 0)
	_, err := n.policy.enforcer.Decide("r", "", sitepolicy.Decision{By: "ann"})
	testkit.Must(t, err)
	if m := p.reveal(n, 0, agreed).GetRefusal(); !strings.Contains(m.GetReason(), "denied") || p.charged() != 0 {
		t.Errorf("it says %v, charged %d times", m, p.charged())
	}
}

// Without a policy nothing on the disk counts openings: a node that starts again counts anew.
func TestWithoutAPolicyOpeningsAreCountedInMemory(t *testing.T) {
	p := newPair(t, "")
	n := p.node()
	for range 1 + masking.Retries {
		for range 3 {
			if m := p.attempt(n, 0); m.GetSum() == nil {
				t.Fatal(m)
			}
		}
		if m := p.reveal(n, 0, p.agree(n, 0)); m.GetRevealed() == nil {
			t.Fatal(m)
		}
	}
	if m := p.attempt(n, 0).GetRefusal(); !strings.Contains(m.GetReason(), "were revealed 4 times") {
		t.Errorf("an attempt after four openings: %v", m)
	}
	if m := p.attempt(p.node(), 0); m.GetSum() == nil {
		t.Errorf("after a restart: %v", m)
	}
}

// A run goes on with the key that it names until its node starts again; later runs need that of today.
func TestACertificateThatWasRenewedWithAnotherKey(t *testing.T) {
	p := newPair(t, "")
	n := p.node()
	if m := p.attempt(n, 0); m.GetSum() == nil {
		t.Fatal(m)
	}
	old := p.group.Members[0].Key
	certstest.Reissue(t, p.certs, certs.RoleNode, "north", nil, time.Hour)
	if m := p.attempt(n, 1); m.GetSum() == nil {
		t.Errorf("the run does not go on: %v", m)
	}
	reason := p.attempt(p.node(), 1).GetRefusal().GetReason()
	for _, want := range []string{`run "r" lists site north with key ` + old.Hex(), keyAt(t, p.certs).Hex(),
		"if it was renewed with a new key"} {
		if !strings.Contains(reason, want) {
			t.Errorf("it is refused with %q, want %q", reason, want)
		}
	}
	p.group.Members[0].Key = keyAt(t, p.certs) // of another spec
	if m := p.attempt(n, 0); m.GetSum() == nil {
		t.Errorf("a run that names the new key: %v", m)
	}
	p.group.Members[0].Site = "nroth"
	if m := p.attempt(p.node(), 0).GetRefusal(); !strings.Contains(m.GetReason(), `is not a member of run "r"`) {
		t.Errorf("a member that is misspelt: %v", m)
	}
}

// A run whose spec names no members, or too few to hide anything, has no terms that a policy could allow.
func TestAGroupThatHidesNothingHasNoTerms(t *testing.T) {
	p := newPair(t, "")
	p.group.Quorum = 1
	spec := new(conclavev1.RunSpec)
	testkit.Must(t, proto.Unmarshal(p.terms(p.node(), embeddingRound("r", 0)).GetSpec(), spec))
	if _, err := SpecTerms(spec); err == nil || !strings.Contains(err.Error(), "a quorum of 1 of 2 sites") {
		t.Errorf("error %v", err)
	}
}
