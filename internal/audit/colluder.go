package audit

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// colluder is a site that takes part in masked runs correctly, and tells an adversary everything that it knows.
type colluder struct {
	site  string
	of    *trials
	party *masking.Party

	mu       sync.Mutex
	attempts map[asked]*masking.Attempt // the newest attempt at each round
}

// colluder makes a colluding site for the trials.
func (c *cluster) colluder(site string, of *trials) (*colluder, error) {
	key, err := pemfile.LoadKey(c.files(certs.RoleNode, site).Key)
	if err != nil {
		return nil, err
	}
	party, err := masking.NewParty(site, key)
	if err != nil {
		return nil, err
	}
	p := &colluder{site: site, of: of, party: party, attempts: map[asked]*masking.Attempt{}}
	of.adversary.colluders = append(of.adversary.colluders, p)
	return p, nil
}

// reply is the site's answer to a message.
func (p *colluder) reply(m *conclavev1.WorkResponse) (answer *conclavev1.WorkRequest, err error) {
	switch {
	case m.GetPermit() != nil:
		answer, err = p.permit(m)
	case m.GetPart() != nil:
		answer, err = p.answer(m)
	case m.GetSurvivors() != nil:
		s := m.GetSurvivors()
		agreed := &conclavev1.Agreed{Run: s.GetRun(), Round: s.GetRound()}
		agreed.Tags, err = p.party.Agree(s.GetRun(), s.GetRound(), s.GetSites())
		answer = &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Agreed{Agreed: agreed}}
	case m.GetAgreement() != nil:
		a := m.GetAgreement()
		var revealed *conclavev1.Revealed
		revealed, err = p.party.Reveal(a.GetRun(), a.GetRound(), a.GetTags())
		answer = &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Revealed{Revealed: revealed}}
	}
	if answer == nil || err != nil {
		return nil, err
	}
	p.of.adversary.hear(p.site, answer)
	return answer, nil
}

func (p *colluder) permit(m *conclavev1.WorkResponse) (*conclavev1.WorkRequest, error) {
	key, err := p.party.Key(m.GetPermit().GetRun(), sha256.Sum256(m.GetTerms().GetSpec()), *p.of.group)
	if err != nil {
		return nil, err
	}
	return permitted(m.GetPermit(), key), nil
}

// answer takes part in an attempt, with a vector that the adversary knows: a unit of class 1.
func (p *colluder) answer(m *conclavev1.WorkResponse) (*conclavev1.WorkRequest, error) {
	round, err := whole(m.GetPart())
	if err != nil {
		return nil, err
	}
	entries, share, err := masking.Asked(p.of.scenario.planned, round, *p.of.group)
	if err != nil {
		return nil, err
	}
	a, err := p.party.Begin(&masking.Terms{
		Run: round.GetRun(), Spec: sha256.Sum256(m.GetTerms().GetSpec()), Group: *p.of.group, Round: round.GetNumber(),
		Fence: m.GetMasked().GetFence(), Counter: m.GetMasked().GetCounter(),
		Question: sha256.Sum256(m.GetPart().GetData()), Entries: entries, Share: share,
		Members: m.GetMasked().GetMembers(),
	}, func(masking.Digest) error { return nil }) // what it pays does not matter here
	if err != nil {
		return nil, err
	}
	values, err := a.Mask([]int64{0, countScale})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[asked{round.GetRun(), round.GetNumber()}] = a
	return vector(round, values), nil
}

// takeOff removes the masks that the site knows from an answer to a round.
func (p *colluder) takeOff(at asked, site string, answer []int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.attempts[at]
	if a == nil {
		return fmt.Errorf("round %d of run %q: site %q was not in it", at.round, at.run, p.site)
	}
	a.TakeOff(site, answer)
	return nil
}
