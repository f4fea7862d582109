package audit

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// View is the part of a masked run that an adversary examines.
type View string

// The views of a masked run. The aggregator is in each of them.
const (
	// ViewAnswers is what the site with the differing record sends, after removing all masks known to the
	// aggregator and the colluding sites: it must show nothing.
	ViewAnswers View = "answers"
	// ViewRelease is the opened total, as released.
	ViewRelease View = "release"
	// ViewColluders is the opened total without the parts of the colluding sites, which know their vectors and
	// noise. The rest has only the noise of the honest sites.
	ViewColluders View = "colluders"
)

// masked says how the runs of a case are masked.
type masked struct {
	honest []string // sites
	// withstood is the number of sites that may collude by the runs' specs, colluders the number that do.
	withstood, colluders int
}

// honestSites are the sites with the worlds' records.
var honestSites = []string{fixedSite, movedSite}

// maskedRounds is the number of rounds of a masked run: each must have its own masks and noise.
const maskedRounds = 2

// maskedCounts asks real nodes for class counts under masks; world 1 lacks a unit of class 0. As many sites
// collude as the run withstands.
func (s *scenario) maskedCounts(b privacy.Budget) error {
	sigma, err := privacy.GaussianSigma(b, maskedRounds, nil)
	if err != nil {
		return err
	}
	s.planned = privacy.Planned{Kind: runspec.ClassCounts, Count: maskedRounds,
		Mechanism: privacy.Event{Kind: privacy.Gaussian, Sigma: sigma, Sensitivity: 1}}
	s.rounds, s.queries, s.units = maskedRounds, 1, units
	s.masked = &masked{honest: honestSites, withstood: 1, colluders: 1}
	return nil
}

// views are the examined views of a run; the view without a name is all releases of a run without masks.
func (s *scenario) views() []View {
	if s.masked == nil {
		return []View{""}
	}
	return []View{ViewAnswers, ViewRelease, ViewColluders}
}

// colluding are the sites that collude.
func (m *masked) colluding() (sites []string) {
	for i := range m.colluders {
		sites = append(sites, fmt.Sprintf("colluder-%d", i))
	}
	return sites
}

// sites are the sites of a case, sorted by name.
func (s *scenario) sites() []string {
	if s.masked == nil {
		return honestSites
	}
	sites := slices.Concat(s.masked.honest, s.masked.colluding())
	slices.Sort(sites)
	return sites
}

// group is the group of sites that mask the runs of a case.
func (c *cluster) group(s *scenario) (*masking.Group, error) {
	sites := s.sites()
	g := &masking.Group{Quorum: len(sites), Colluding: s.masked.withstood}
	for _, site := range sites {
		key, err := pemfile.LoadKey(c.files(certs.RoleNode, site).Key)
		if err != nil {
			return nil, err
		}
		m, err := masking.MemberOf(site, key.Public())
		if err != nil {
			return nil, err
		}
		g.Members = append(g.Members, m)
	}
	return g, g.Validate()
}
