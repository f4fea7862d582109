package node

import (
	"crypto"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/votebits"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// masks are a node's part in masked runs: see package masking. All of it lives in memory: a node that starts
// again has another run key, and nothing of before can be asked of it.
type masks struct {
	site, keyFile string
	samples       question.UnpaidSamples

	mu   sync.Mutex
	made *masking.Party // nil before the first masked run: others need no key of the certificate here
}

func newMasks(c Config) *masks { return &masks{site: c.Site, keyFile: c.TLS.Key} }

// party is the node's, with the key of its certificate as it is when it is first needed.
func (m *masks) party() (*masking.Party, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made != nil {
		return m.made, nil
	}
	key, err := m.signer()
	if err != nil {
		return nil, err
	}
	m.made, err = masking.NewParty(m.site, key)
	return m.made, err
}

// signer is the key of the node's certificate.
func (m *masks) signer() (crypto.Signer, error) {
	key, err := pemfile.LoadKey(m.keyFile)
	if err != nil {
		return nil, errors.New("the node cannot read its certificate's key, which signs its run keys; its " +
			"configuration names the file under tls")
	}
	return key, nil
}

// groupOf is among whom a run is masked, by its spec; nil where it is not.
func groupOf(s announced) (*masking.Group, error) {
	if s.GetMasked() == nil {
		return nil, nil
	}
	g, err := masking.Parse(s.GetMasked())
	if err != nil {
		return nil, err
	}
	return &g, nil
}

// key is the node's signed key of a run, nil where it is not masked.
func (m *masks) key(s announced) (*conclavev1.RunKey, error) {
	g, err := groupOf(s)
	if g == nil || err != nil {
		return nil, err
	}
	party, err := m.party()
	if err != nil {
		return nil, err
	}
	signer, err := m.signer() // the certificate may have been renewed
	if err == nil {
		err = party.Renew(signer)
	}
	if err != nil {
		return nil, err
	}
	return party.Key(s.GetName(), s.digest(), *g)
}

// takes says whether the node gave a masked run a key.
func (m *masks) takes(run string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made != nil && m.made.Takes(run)
}

// over forgets a run.
func (m *masks) over(run string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made != nil {
		m.made.Over(run)
	}
	m.samples.Drop(run)
}

// maskedAttempt is a node's part in an attempt at a round; nil is a round without masks.
type maskedAttempt struct {
	*masking.Attempt
	classes int // of votes
}

// begin takes part in an attempt at a round of a masked run, whose opening pay charges. It returns nil for a round of
// another run, and for a permit. What is asked is read here too, so that the terms are the node's own.
func (m *masks) begin(
	t task, kinds question.Registry, p *question.Public, pay masking.Pay,
) (*maskedAttempt, error) {
	if t.question == nil || t.refusal != nil {
		return nil, nil
	}
	g, err := groupOf(t.spec)
	switch {
	case err != nil:
		return nil, err
	case g == nil && t.masked == nil && m.takes(t.run):
		return nil, fmt.Errorf("run %q is masked by the spec for which this node gave its key, and the aggregator "+
			"now uses another spec: open a run with another name", t.run)
	case g == nil && t.masked == nil:
		return nil, nil
	case g == nil:
		return nil, errors.New("the round is masked, but the run's spec lists no members; install matching versions " +
			"of node and aggregator")
	case t.masked == nil:
		return nil, errors.New("the run is masked, but the round would reveal this node's sum to the aggregator; " +
			"install matching versions of node and aggregator")
	}
	terms, err := termsOf(t, *g, kinds, p)
	if err != nil {
		return nil, err
	}
	party, err := m.party()
	if err != nil {
		return nil, err
	}
	a, err := party.Begin(terms, pay)
	if err != nil {
		return nil, err
	}
	return &maskedAttempt{a, int(t.question.round.GetVotes().GetClasses())}, nil
}

// termsOf are the terms of an attempt, of what the node was sent and nothing that it was told of them.
func termsOf(t task, g masking.Group, kinds question.Registry, p *question.Public) (*masking.Terms, error) {
	plan, err := runspec.Plan(t.spec.RunSpec)
	if err != nil {
		return nil, err
	}
	if err := masking.CheckPlan(plan); err != nil {
		return nil, err
	}
	round := t.question.round
	planned, _, _, err := priced(plan, round.GetKind(), round.GetPlanned(), round.GetVotes().GetQueries())
	if err != nil {
		return nil, err
	}
	if t.question.checked, err = check(kinds, p, round, false); err != nil {
		return nil, err
	}
	if err := runspec.Pays(planned, round); err != nil {
		return nil, err
	}
	entries, share, err := masking.Asked(planned, round, g)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(t.question.digest())
	if err != nil {
		return nil, fmt.Errorf("name a question: %w", err)
	}
	return &masking.Terms{
		Run: t.run, Spec: t.spec.digest(), Group: g, Round: t.round, Fence: t.masked.GetFence(),
		Counter: t.masked.GetCounter(), Question: masking.Digest(raw), Entries: entries,
		Share: share, Members: t.masked.GetMembers(),
	}, nil
}

// name tells the attempt from others.
func (a *maskedAttempt) name() string {
	d := a.Digest()
	return hex.EncodeToString(d[:])
}

// mask puts noise and masks on an answer.
func (a *maskedAttempt) mask(answer *conclavev1.WorkRequest) error {
	if a == nil {
		return nil
	}
	sum := answer.GetSum()
	if votes := answer.GetVotes(); votes != nil {
		counts, err := tally(votes, a.classes)
		if err != nil {
			return err
		}
		sum = &conclavev1.Sum{Run: votes.GetRun(), Round: votes.GetRound(), Values: counts}
	}
	values, err := a.Mask(sum.GetValues()) // a new vector: a kind may keep what it answered
	sum.Values = values
	answer.Message = &conclavev1.WorkRequest_Sum{Sum: sum}
	return err
}

// tally adds up the votes of a node's teachers, in the steps of a masked histogram.
func tally(v *conclavev1.Votes, classes int) ([]int64, error) {
	queries := int(v.GetQueries())
	counts := make([]int64, queries*classes)
	if err := votebits.Count(counts, v.GetPacked(), int(v.GetTeachers()), queries, classes); err != nil {
		return nil, err
	}
	for i := range counts {
		counts[i] *= masking.VoteSteps
	}
	return counts, nil
}

// open agrees to who is in the sum of a masked round, or opens this node's answer.
func (n *Node) open(t task) *conclavev1.WorkRequest {
	answer, err := n.masks.open(t)
	if err != nil {
		request := sitepolicy.Request{Run: t.run, Round: t.round}
		if unpaid := (*unpaidError)(nil); errors.As(err, &unpaid) {
			request = unpaid.request
		}
		refusal := n.policy.refusal(request, err)
		if doubt := (*masking.DoubtError)(nil); errors.As(err, &doubt) {
			refusal.Doubted = doubt.Sites
		}
		return n.refuse(t, refusal, err)
	}
	answer.Attempt = t.attempt
	return answer
}

// opening charges that the answer to a round of a masked run is opened, and writes it down: before that, nothing of
// the answer can be read.
func (n *Node) opening(t task, r sitepolicy.Request) masking.Pay {
	about := asking{run: t.run, round: t.round} // the task has the question, which may be large: it is not kept
	if t.question != nil {
		about.purpose = t.question.round.GetKind()
	}
	return func(opening masking.Digest) error {
		r.Question = hex.EncodeToString(opening[:])
		err := n.mayLeave() // it would be charged and stay
		if err == nil {
			var charged *sitepolicy.Entry
			if charged, err = n.policy.charge(r); err == nil {
				n.masks.samples.Drop(about.run) // before the seeds leave, so that no later attempt has it
				err = n.write(auditlog.Opened, about, charged, 0)
			}
		}
		if err != nil {
			return &unpaidError{r, err}
		}
		return nil
	}
}

// unpaidError is why an opening was not charged, or not written down.
type unpaidError struct {
	request sitepolicy.Request
	error
}

func (u *unpaidError) Unwrap() error { return u.error }

func (m *masks) open(t task) (*conclavev1.WorkRequest, error) {
	party, err := m.party()
	if err != nil {
		return nil, err
	}
	if s := t.opens.GetSurvivors(); s != nil {
		tags, err := party.Agree(t.run, t.round, s.GetSites())
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Agreed{Agreed: &conclavev1.Agreed{
			Run: t.run, Round: t.round, Tags: tags,
		}}}, err
	}
	revealed, err := party.Reveal(t.run, t.round, t.opens.GetAgreement().GetTags())
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Revealed{Revealed: revealed}}, err
}
