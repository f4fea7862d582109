package audit

import (
	"fmt"
	"slices"
	"sync"

	"github.com/conclave-dp/conclave/internal/masking"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// adversary is the aggregator of masked runs on a dataset, together with the sites that collude with it. It
// follows the protocol and stores everything that it receives.
type adversary struct {
	colluders []*colluder

	mu       sync.Mutex
	attempts map[asked]*attempt
}

// asked identifies a round.
type asked struct {
	run   string
	round uint64
}

// attempt is what sites sent in the newest attempt at a round.
type attempt struct {
	answers map[string][]int64
	seeds   map[string]*conclavev1.Revealed
}

func newAdversary() *adversary { return &adversary{attempts: map[asked]*attempt{}} }

// hear stores what a site sends.
func (a *adversary) hear(site string, m *conclavev1.WorkRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := func(run string, round uint64) *attempt {
		at := asked{run, round}
		if a.attempts[at] == nil {
			a.attempts[at] = &attempt{map[string][]int64{}, map[string]*conclavev1.Revealed{}}
		}
		return a.attempts[at]
	}
	if s := m.GetSum(); s != nil {
		of(s.GetRun(), s.GetRound()).answers[site] = slices.Clone(s.GetValues())
	}
	if r := m.GetRevealed(); r != nil {
		of(r.GetRun(), r.GetRound()).seeds[site] = r
	}
}

// opened is a site's answer without the mask of its own seed, which it revealed.
func (h *attempt) opened(site string) []int64 {
	alone := &masking.Terms{Members: []*conclavev1.RunKey{{Site: site}}}
	answer := slices.Clone(h.answers[site])
	alone.Open(answer, []string{site}, []*conclavev1.Revealed{h.seeds[site]})
	return answer
}

// observe computes, for each view of a run, a number that increases with the likelihood of world 0. releases are
// those of its rounds, in order.
func (a *adversary) observe(s *scenario, releases []*conclavev1.Release) ([]float64, error) {
	var answers, release, colluders float64
	for _, r := range releases {
		at := asked{r.GetRun(), r.GetRound()}
		a.mu.Lock()
		h := a.attempts[at]
		delete(a.attempts, at)
		a.mu.Unlock()
		if h == nil || len(h.answers) != len(s.sites()) || len(h.seeds) != len(h.answers) {
			return nil, fmt.Errorf("round %d of run %q was opened before all sites had answered",
				at.round, at.run)
		}
		total := make([]int64, len(s.units))
		for site := range h.answers {
			masking.AddUp(total, h.opened(site))
		}
		if !slices.Equal(total, r.GetSum().GetValues()) {
			return nil, fmt.Errorf("round %d of run %q: the release does not match the sites' answers",
				at.round, at.run)
		}
		release += aside(total[0], s.units[0])
		known, err := a.known(at, h)
		if err != nil {
			return nil, err
		}
		colluders += aside(total[0]-known[0], s.units[0])
		x, err := a.single(at, h)
		if err != nil {
			return nil, err
		}
		answers += x
	}
	return []float64{answers, release, colluders}, nil
}

// known is the sum of what colluding sites sent, without masks: their vectors with their noise.
func (a *adversary) known(at asked, h *attempt) ([]int64, error) {
	known := make([]int64, len(h.answers[movedSite]))
	for _, c := range a.colluders {
		own := slices.Clone(h.answers[c.site])
		if err := c.takeOff(at, c.site, own); err != nil {
			return nil, err
		}
		masking.AddUp(known, own)
	}
	return known, nil
}

// single is what the answer of the site with the differing record shows by itself. Masks can be removed in four
// ways: with or without that of the revealed seed, and with or without those shared with colluding sites. If one
// way leaves no mask, the rest is close to the site's count, so the closest is used.
func (a *adversary) single(at asked, h *attempt) (float64, error) {
	var closest float64
	for i, answer := range [][]int64{h.answers[movedSite], h.opened(movedSite)} {
		shared := slices.Clone(answer)
		for _, c := range a.colluders {
			if err := c.takeOff(at, movedSite, shared); err != nil {
				return 0, err
			}
		}
		for k, v := range [][]int64{answer, shared} {
			if x := aside(v[0], movedUnits); i+k == 0 || max(x, -x) < max(closest, -closest) {
				closest = x
			}
		}
	}
	return closest, nil
}

// aside is the distance of a count from the midpoint between the two worlds, in units; the other world has one
// unit less.
func aside(count, units int64) float64 {
	return float64(count-units*countScale+countScale/2) / countScale
}
