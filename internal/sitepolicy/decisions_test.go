package sitepolicy

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// board is a site whose policy needs both of its approvers, ann and ben. Carl has a certificate, too.
type board struct {
	site
	certs string
	now   time.Time
}

func newBoard(t testing.TB, needed int) *board {
	b := &board{newSite(t), certstest.New(t), time.Now()}
	for _, name := range []string{"ann", "ben", "carl"} {
		testkit.Must(t, authority.Issue(b.certs, certs.RoleApprover, name, nil, 24*time.Hour))
	}
	b.approvers(needed, "ann", "ben")
	return b
}

// approvers replaces the approvers in the policy.
func (b *board) approvers(needed int, names ...string) {
	b.t.Helper()
	policy := "datasets:\n  - name: d\n    epsilon: 2\n    delta: 1e-5\n    pipelines: [pategan]\n"
	policy += fmt.Sprintf("    approvals_needed: %d\n    approvers:\n", needed)
	for _, name := range names {
		policy += fmt.Sprintf("      - {name: Dr. %s, key: %s}\n", name, b.key(name))
	}
	b.write(policy)
}

func (b *board) files(name string) certs.Files {
	for _, role := range certs.Roles() {
		f := certs.IssuedFiles(b.certs, role, name)
		if _, err := os.Stat(f.Cert); err == nil {
			f.Revoked = certs.RevokedFile(b.certs)
			return f
		}
	}
	b.t.Fatalf("%q has no certificate", name)
	return certs.Files{}
}

func (b *board) key(name string) string {
	pair, err := pemfile.LoadPair(b.files(name).Cert, b.files(name).Key)
	testkit.Must(b.t, err)
	key, err := certs.Fingerprint(pair.Leaf.PublicKey)
	testkit.Must(b.t, err)
	return key
}

// signer signs with a person's files.
func (b *board) signer(name string) func(attest.Statement) (attest.Signature, error) {
	return func(s attest.Statement) (attest.Signature, error) { return attest.SignBy(b.files(name), s) }
}

// enforcer is the site's enforcer, with the board's clock.
func (b *board) enforcer() *Enforcer {
	e := b.site.enforcer(func(o *Options) { o.Authority = b.files("ann") })
	e.ledger.now = func() time.Time { return b.now }
	return e
}

// decides makes a person decide about run r, a second after the last decision.
func (b *board) decides(name string, approve bool) (*Run, error) {
	b.now = b.now.Add(time.Second)
	by := Decision{Approve: approve, By: "user@host"}
	if name != "" {
		by.Sign = b.signer(name)
	}
	return b.enforcer().Decide("r", "", by)
}

func (b *board) state(want string) *Run {
	b.t.Helper()
	s, err := b.enforcer().Status()
	testkit.Must(b.t, err)
	run := &s.Runs[0]
	if run.State != want {
		b.t.Fatalf("the run is %s, want %s: %+v", run.State, want, run.Said)
	}
	refusal := b.enforcer().Ask(round("r", 0, 100))
	if want == StateApproved {
		testkit.Must(b.t, refusal)
	} else {
		refusedBy(b.t, refusal, map[string]Rule{StateWaiting: RuleApproval, StateDenied: RuleDenied}[want])
	}
	return run
}

// asked is a board at which a run has asked.
func asked(t testing.TB, needed int) *board {
	b := newBoard(t, needed)
	r := refusedBy(t, b.enforcer().Ask(round("r", 0, 100)), RuleApproval)
	if want := fmt.Sprintf("0 of %d approvals", needed); needed > 1 && r.Private != want {
		t.Errorf("the site reads %q, want %q", r.Private, want)
	}
	return b
}

func TestTwoPersonsLetARunBegin(t *testing.T) {
	b := asked(t, 2)
	decide := func(name string, approve bool) *Run {
		t.Helper()
		run, err := b.decides(name, approve)
		testkit.Must(t, err)
		return run
	}
	if run := decide("ann", true); run.State != StateWaiting || run.Approvals != 1 || run.By != "Dr. ann" {
		t.Errorf("after one approval: %+v", run)
	}
	if r := refusedBy(t, b.enforcer().Ask(round("r", 0, 100)), RuleApproval); r.Leaving() !=
		"waits for approval at site north" || r.Private != "1 of 2 approvals, by Dr. ann" {
		t.Errorf("%q leaves, the site reads %q", r.Leaving(), r.Private)
	}
	decide("ann", true) // the same certificate twice is one person
	if run := b.state(StateWaiting); run.Approvals != 1 || run.Said[0].Counts || !run.Said[1].Counts ||
		run.Said[1].Key != b.key("ann") {
		t.Errorf("after one person approved twice: %+v", run)
	}
	decide("ben", true)
	if run := b.state(StateApproved); run.By != "Dr. ann, Dr. ben" {
		t.Errorf("approved by %q", run.By)
	}
	decide("ann", false) // one person's denial denies, whatever others decide
	decide("ben", true)
	if run := b.state(StateDenied); run.By != "Dr. ann" {
		t.Errorf("denied by %q", run.By)
	}
	decide("ann", true) // and only that person can withdraw it
	b.state(StateApproved)
	// Anybody who may run the command may stop a run; then both must decide again.
	decide("", false)
	if run := b.state(StateDenied); run.By != "user@host" {
		t.Errorf("denied by %q", run.By)
	}
	decide("ben", true)
	b.state(StateWaiting)
	decide("ann", true)
	b.state(StateApproved)
}

// Two certificates for one key belong to one person, and a policy has no second name for a key.
func TestTwoCertificatesOfOneKeyAreOnePerson(t *testing.T) {
	b := asked(t, 2)
	folder := t.TempDir()
	for i, name := range []string{"carla", "carla-again"} {
		choice := request.FirstKey
		if i > 0 {
			choice = request.SameKey
		}
		q := testkit.Value(request.New(folder, certs.RoleApprover, "carla", nil, choice))
		issued := testkit.Value(authority.Approve(b.certs, q, time.Hour))
		at := certs.IssuedFiles(b.certs, certs.RoleApprover, name)
		testkit.Must(t, issued.SaveAs(at.Cert))
		key := testkit.Read(t, certs.FilesAtSite(folder, certs.RoleApprover, "carla").Key)
		testkit.Must(t, os.WriteFile(at.Key, key, 0o600))
	}
	b.approvers(2, "ann", "carla")
	for _, name := range []string{"carla", "carla-again"} {
		testkit.Value(b.decides(name, true))
	}
	if run := b.state(StateWaiting); run.Approvals != 1 || run.By != "Dr. carla" {
		t.Errorf("after one person approved with two certificates: %+v", run)
	}
	testkit.Value(b.decides("ann", true))
	b.state(StateApproved)
	b.approvers(2, "carla", "carla-again")
	refusal := refusedBy(t, b.enforcer().Ask(round("r", 0, 100)), RulePolicy)
	if !strings.Contains(refusal.Private, "each person needs their own key") {
		t.Errorf("a policy with one key for two: %q", refusal.Private)
	}
}

// Decisions that the policy does not count are refused.
func TestWhoMayNotDecide(t *testing.T) {
	b := asked(t, 1)
	for name, want := range map[string]string{
		"":     "it is not signed",
		"carl": "no approver with the key",
		"lab":  "no approver with the key",
	} {
		if _, err := b.decides(name, true); !errors.Is(err, ErrSigned) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	b.approvers(1, "lab") // a student's key does not belong to a person
	if _, err := b.decides("lab", true); !errors.Is(err, ErrSigned) || !strings.Contains(err.Error(),
		"of role approver") {
		t.Errorf("error %v", err)
	}
	b.state(StateWaiting)
	b.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	if _, err := b.decides("ann", true); !errors.Is(err, ErrSigned) {
		t.Errorf("a signature that the policy does not ask for: %v", err)
	}
}

// A counted decision stops counting when the policy names others, or the certificate becomes invalid.
func TestSignaturesCountWhileTheyAreGood(t *testing.T) {
	b := asked(t, 1)
	_, err := b.decides("ann", true)
	testkit.Must(t, err)
	b.state(StateApproved)
	b.approvers(1, "ben")
	b.state(StateWaiting)
	b.approvers(1, "ann")
	b.state(StateApproved)
	b.now = b.now.Add(25 * time.Hour)
	if run := b.state(StateWaiting); !strings.Contains(run.Said[0].Why, "expired") {
		t.Errorf("of a certificate that ended the status says %q", run.Said[0].Why)
	}

	b = asked(t, 1)
	_, err = b.decides("ann", true)
	testkit.Must(t, err)
	_, err = authority.Revoke(b.certs, authority.Revocation{Name: "ann", Reason: certs.ReasonKeyCompromise})
	testkit.Must(t, err)
	if run := b.state(StateWaiting); !strings.Contains(run.Said[0].Why, "revoked") {
		t.Errorf("of a certificate that was revoked the status says %q", run.Said[0].Why)
	}
	testkit.Must(t, os.Remove(certs.RevokedFile(b.certs)))
	b.state(StateWaiting)
}

// forge appends an entry with a matching hash to the ledger, as anybody with write access to the state folder can.
func (b *board) forge(e Entry) {
	b.t.Helper()
	b.now = b.now.Add(time.Second)
	l := newSiteLedger(b.ledger, false)
	l.now, l.sync = func() time.Time { return b.now }, unsynced
	testkit.Must(b.t, l.use(func(*book) ([]Entry, error) { return []Entry{e}, nil }))
}

// last is the hash of the ledger's last entry.
func (b *board) last() string {
	b.t.Helper()
	s, err := b.enforcer().Status()
	testkit.Must(b.t, err)
	return s.Head
}

// signed returns the signed entries of a run.
func (b *board) signed() (all []Entry) {
	b.t.Helper()
	for _, line := range b.lines() {
		e, err := parseEntry(bytes.TrimSuffix([]byte(line), []byte("\n")))
		testkit.Must(b.t, err)
		if e.Signed != nil {
			all = append(all, e)
		}
	}
	return all
}

// Write access to the state folder, without a listed key, is not enough to let a run begin.
func TestForgedApprovalsDoNotCount(t *testing.T) {
	r, q := round("r", 0, 100), round("q", 0, 100)
	entry := func(change func(*Entry)) Entry {
		e := Entry{Type: EntryApprove, Run: "r", SpecSHA256: r.SpecSHA256, entryDecision: entryDecision{By: "Dr. ann"}}
		change(&e)
		return e
	}
	b := asked(t, 1)
	refusedBy(t, b.enforcer().Ask(q), RuleApproval)
	// Ann approves another run, until a day, and denies r.
	_, err := b.enforcer().Decide("q", "", Decision{Approve: true, By: "u", Until: b.now.Add(time.Hour),
		Sign: b.signer("ann")})
	testkit.Must(t, err)
	_, err = b.decides("ann", false)
	testkit.Must(t, err)
	ofQ, denial := b.signed()[0], b.signed()[1]
	byCarl, err := attest.SignBy(b.files("carl"), attest.Decision("d", "north", "0", "r", r.SpecSHA256, EntryApprove,
		denial.Signed.Made, "", b.last()))
	testkit.Must(t, err)
	chained := byCarl
	chained.Chain = ofQ.Signed.Chain
	elsewhere, err := attest.SignBy(b.files("ann"), attest.Decision("d", "north", "1", "r", r.SpecSHA256, EntryApprove,
		denial.Signed.Made, "", b.last()))
	testkit.Must(t, err)
	for name, e := range map[string]Entry{
		"unsigned":                 entry(func(*Entry) {}),
		"of another run":           entry(func(e *Entry) { e.Signed, e.Until = ofQ.Signed, ofQ.Until }),
		"of a denial":              entry(func(e *Entry) { e.Signed = denial.Signed }),
		"of a stranger":            entry(func(e *Entry) { e.Signed = &Signed{denial.Signed.Made, byCarl} }),
		"of a stranger as ann":     entry(func(e *Entry) { e.Signed = &Signed{denial.Signed.Made, chained} }),
		"of another node":          entry(func(e *Entry) { e.Signed = &Signed{denial.Signed.Made, elsewhere} }),
		"nothing":                  entry(func(e *Entry) { e.Signed = &Signed{Made: denial.Signed.Made} }),
		"of another run, for ever": entry(func(e *Entry) { e.Signed = ofQ.Signed }),
	} {
		b.forge(e)
		if run := b.state(StateDenied); run.Said[len(run.Said)-1].Counts {
			t.Errorf("an approval counts whose signature is %s", name)
		}
	}
	// Ann's earlier decision does not override the later one, whenever it is written again.
	b = asked(t, 1)
	for _, approve := range []bool{true, false} {
		_, err := b.decides("ann", approve)
		testkit.Must(t, err)
	}
	approval := b.signed()[0]
	b.forge(Entry{Type: EntryApprove, Run: "r", SpecSHA256: r.SpecSHA256, entryDecision: approval.entryDecision})
	b.state(StateDenied)
	// Nor does it undo a stop.
	b = asked(t, 1)
	_, err = b.decides("ann", true)
	testkit.Must(t, err)
	_, err = b.decides("", false)
	testkit.Must(t, err)
	b.forge(Entry{Type: EntryApprove, Run: "r", SpecSHA256: r.SpecSHA256, entryDecision: b.signed()[0].entryDecision})
	b.state(StateDenied)
	// Removing the end of an approval breaks its signature.
	b = asked(t, 1)
	_, err = b.enforcer().Decide("r", "", Decision{Approve: true, By: "u", Until: b.now.Add(time.Minute),
		Sign: b.signer("ann")})
	testkit.Must(t, err)
	b.state(StateApproved)
	b.now = b.now.Add(time.Hour)
	b.state(StateWaiting)
	e := b.signed()[0].entryDecision
	e.Until = ""
	b.forge(Entry{Type: EntryApprove, Run: "r", SpecSHA256: r.SpecSHA256, entryDecision: e})
	b.state(StateWaiting)
}

// A run written into the ledger with false terms is not the run that people read about.
func TestTermsThatWereForgedLetNothingBegin(t *testing.T) {
	s := newSite(t)
	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	r, other := round("r", 0, 100), round("other", 0, 100)
	refusedBy(t, s.enforcer().Ask(other), RuleApproval)
	harmless := r.Spec
	harmless.Epsilon = 1
	b := &board{site: s, now: time.Now()}
	b.forge(Entry{Type: EntryRun, Run: "r", SpecSHA256: r.SpecSHA256, Spec: &harmless})
	_, err := s.enforcer().Decide("r", "", Decision{Approve: true, By: "ann"})
	testkit.Must(t, err)
	_, err = s.enforcer().Charge(r)
	refusedBy(t, err, RuleTerms)
	r.Spec = harmless
	testkit.Must(t, s.enforcer().Ask(r))
}

// A false requester in the ledger is detected, before and after the people's decision.
func TestARequesterWhoWasForgedLetsNothingBegin(t *testing.T) {
	b, r := asked(t, 1), byLab("q", 0, 50, 20)
	b.forge(Entry{Type: EntryRun, Run: "q", SpecSHA256: r.SpecSHA256, Spec: &r.Spec, Requester: "eve"})
	_, err := b.enforcer().Decide("q", "", Decision{Approve: true, By: "u", Sign: b.signer("ann")})
	testkit.Must(t, err)
	refusedBy(t, b.enforcer().Ask(r), RuleTerms)
	// Correcting the requester afterwards and rechaining the entries breaks the signatures.
	entries := make([]Entry, 0, 4)
	for _, line := range b.lines() {
		e, err := parseEntry(bytes.TrimSuffix([]byte(line), []byte("\n")))
		testkit.Must(t, err)
		if e.Requester == "eve" {
			e.Requester = "lab"
		}
		e.Hash = ""
		entries = append(entries, e)
	}
	for _, path := range []string{b.ledger, strings.TrimSuffix(b.ledger, ".jsonl") + ".head"} {
		testkit.Must(t, os.Remove(path))
	}
	l := newSiteLedger(b.ledger, false)
	l.now, l.sync = func() time.Time { return b.now }, unsynced
	testkit.Must(t, l.use(func(*book) ([]Entry, error) { return entries, nil }))
	refusal := refusedBy(t, b.enforcer().Ask(r), RuleApproval)
	status := testkit.Value(b.enforcer().Status())
	if said := status.Runs[1].Said[0]; said.Counts || !strings.Contains(said.Why, "not valid") || !refusal.Waiting {
		t.Errorf("the signature of other terms is %+v", said)
	}
}

// The order in the ledger determines the newest decision, also while the clock stands still or was set back.
func TestTheLastDecisionCountsWhateverTheClock(t *testing.T) {
	b := asked(t, 2)
	for i, c := range []struct {
		name    string
		approve bool
		want    string
	}{
		{"ann", true, StateWaiting}, {"ben", true, StateApproved}, {"ann", false, StateDenied},
		{"ann", true, StateApproved}, {"", false, StateDenied}, {"ann", true, StateWaiting},
		{"ben", true, StateApproved}, {"ben", false, StateDenied}, {"ben", true, StateApproved},
	} {
		_, err := b.decides(c.name, c.approve)
		testkit.Must(t, err)
		b.state(c.want)
		b.now = b.now.Add(-time.Second) // back to where it was
		if i == 4 {
			b.now = b.now.Add(-time.Hour)
		}
	}
}

// Another certificate of the same key, which is not revoked, does not replace the one that signed.
func TestACertificateIsNotReplaced(t *testing.T) {
	b := asked(t, 1)
	_, err := b.decides("ann", true)
	testkit.Must(t, err)
	e := b.signed()[0]
	statement := (&book{dataset: "d", site: "north", node: "0"}).statement(e, e.Signed.Made)
	testkit.Value(e.Signed.Check(statement))
	key := b.key("ann")
	certstest.SignAgain(t, b.certs, b.files("ann").Cert, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(7) })
	pair, err := pemfile.LoadPair(b.files("ann").Cert, b.files("ann").Key)
	testkit.Must(t, err)
	testkit.Same(t, "the key", key, b.key("ann"))
	e.Signed.Chain[0] = pair.Certificate[0]
	if _, err := e.Signed.Check(statement); !errors.Is(err, attest.ErrSignature) {
		t.Errorf("a signature with another certificate of its key: %v", err)
	}
}

// A revocation list from before a revocation revives nobody, also after a restart of the node.
func TestAnOlderListRevivesNobody(t *testing.T) {
	b := asked(t, 1)
	older := testkit.Read(t, certs.RevokedFile(b.certs))
	_, err := b.decides("ann", true)
	testkit.Must(t, err)
	b.state(StateApproved)
	_, err = authority.Revoke(b.certs, authority.Revocation{Name: "ann", Reason: certs.ReasonKeyCompromise})
	testkit.Must(t, err)
	b.state(StateWaiting)
	entries := len(b.lines())
	b.state(StateWaiting) // the list's number is recorded in the ledger
	if len(b.lines()) != entries {
		t.Errorf("%d entries, want %d", len(b.lines()), entries)
	}
	testkit.Must(t, os.WriteFile(certs.RevokedFile(b.certs), older, 0o600))
	if run := b.state(StateWaiting); !strings.Contains(run.Said[0].Why, "it is older") {
		t.Errorf("of the older list the status says %q", run.Said[0].Why)
	}
}

// If the policy names approvers, one of them must sign the acceptance of an older dataset ledger.
func TestAnApproverAcceptsALedger(t *testing.T) {
	b := asked(t, 1)
	_, err := b.decides("ann", true)
	testkit.Must(t, err)
	head := LedgerHead{Seq: 4, Hash: digest("restored")}
	accepts := func(name string) error {
		by := Decision{By: "user@host"}
		if name != "" {
			by.Sign = b.signer(name)
		}
		return b.enforcer().AcceptLedger(head, by)
	}
	for name, want := range map[string]string{"": "it is not signed", "carl": "no approver with the key"} {
		if err := accepts(name); !errors.Is(err, ErrSigned) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	testkit.Must(t, b.enforcer().Accepted())
	b.state(StateApproved)
	for i := range 2 { // also after an earlier acceptance
		b.forge(Entry{Type: EntryAccept, Accepted: &head, entryDecision: entryDecision{By: "Dr. ann"}})
		if r := refusedBy(t, b.enforcer().Ask(round("r", 0, 100)), RuleLedger); !strings.Contains(r.Private,
			"accepts an older ledger") || strings.Contains(r.Leaving(), "Dr.") {
			t.Errorf("it is refused with %v", r)
		}
		if b.enforcer().Accepted() == nil {
			t.Error("what nobody signed counts")
		}
		testkit.Must(t, accepts([]string{"ben", "ann"}[i]))
		testkit.Must(t, b.enforcer().Accepted())
		b.state(StateApproved)
	}
	signed := b.signed()
	b.forge(Entry{Type: EntryAccept, Accepted: &head, entryDecision: signed[len(signed)-1].entryDecision})
	refusedBy(t, b.enforcer().Ask(round("r", 0, 100)), RuleLedger) // it was signed for another position
	testkit.Must(t, accepts("ann"))
	b.now = b.now.Add(25 * time.Hour) // the certificate ends, but the acceptance stays valid
	testkit.Must(t, b.enforcer().Accepted())
	_, err = authority.Revoke(b.certs, authority.Revocation{Name: "ann", Reason: certs.ReasonKeyCompromise})
	testkit.Must(t, err)
	if err := b.enforcer().Accepted(); !errors.Is(err, certs.ErrRevoked) {
		t.Errorf("signed by a certificate that was revoked: %v", err)
	}
}

// A stop holds until all needed approvers approve again, whatever was approved in advance.
func TestAStopOutweighsWhatWasApprovedInAdvance(t *testing.T) {
	b := newBoard(t, 2)
	r := byLab("r", 0, 50, 20)
	refusedBy(t, b.enforcer().Ask(r), RuleApproval)
	for _, name := range []string{"ann", "ben"} {
		b.now = b.now.Add(time.Second)
		_, err := b.enforcer().Decide("study", "", Decision{Approve: true, By: "user@host", Sign: b.signer(name),
			Advance: lab(1), Until: b.now.Add(time.Hour)})
		testkit.Must(t, err)
	}
	testkit.Must(t, b.enforcer().Ask(r))
	for _, c := range []struct {
		name    string
		approve bool
		want    Rule
	}{{"", false, RuleDenied}, {"ann", true, RuleApproval}, {"ben", true, ""}} {
		_, err := b.decides(c.name, c.approve)
		testkit.Must(t, err)
		if refusal := b.enforcer().Ask(r); c.want == "" {
			testkit.Must(t, refusal)
		} else {
			refusedBy(t, refusal, c.want)
		}
	}
}

// Nobody signs for a node whose ledger was replaced by another node's.
func TestNobodyDecidesByTheLedgerOfAnotherNode(t *testing.T) {
	b := asked(t, 1)
	e := b.enforcer()
	e.o.Node = "another"
	if _, err := e.Decide("r", "", Decision{Approve: true, By: "user@host", Sign: b.signer("ann")}); !errors.Is(err,
		ErrLedger) {
		t.Errorf("error %v", err)
	}
	if _, err := e.Brief("r", ""); !errors.Is(err, ErrLedger) {
		t.Errorf("what it asks: error %v", err)
	}
}
