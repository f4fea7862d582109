package sitepolicy

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/masking"
)

// Peer is a site with which a masked run is allowed, identified by its certificate's key. People compare the
// fingerprint with that site, not with the aggregator.
type Peer struct {
	// Site is the name of the site. Required.
	Site string `yaml:"site"`
	// Key is the SHA-256 fingerprint of the key of its certificate, in hex, also in groups
	// (docs/masked.md#fingerprints). Required.
	Key string `yaml:"key"`
}

// validateMasked checks the fields about masked runs.
func (d *Dataset) validateMasked(need func(ok bool, field, format string, args ...any)) {
	need(d.LeastSites >= 0 && d.LeastSites <= masking.MaxMembers, "least_sites",
		"%d is not valid; use 2 to %d sites", d.LeastSites, masking.MaxMembers)
	need(d.LeastColluding >= 0 && d.LeastColluding < masking.MaxMembers, "least_colluding",
		"%d is not valid; use 0 to %d sites", d.LeastColluding, masking.MaxMembers-1)
	need(d.Masked || d.LeastSites == 0, "least_sites",
		"has no effect on runs without masks, which are allowed; also set masked: true")
	need(d.Masked || d.LeastColluding == 0, "least_colluding",
		"has no effect on runs without masks, which are allowed; also set masked: true")
	sites, keys := map[string]bool{}, map[masking.Fingerprint]bool{}
	for i, p := range d.Peers {
		at := fmt.Sprintf("peers[%d]", i)
		if err := config.CheckName(p.Site); err != nil {
			need(false, at+".site", "%w", err)
		}
		need(!sites[p.Site], at+".site", "%q is listed twice; keep only one", p.Site)
		sites[p.Site] = true
		key, err := masking.ParseFingerprint(p.Key)
		if err != nil {
			need(false, at+".key", "%w", err)
			continue
		}
		need(!keys[key], at+".key", "is also the key of another peer; each site needs its own key")
		keys[key] = true
	}
}

// permitsMasks checks the rules about masks. own is the site itself, whose node checks its own key.
func (d *Dataset) permitsMasks(s Spec, own string) *Refusal {
	g := s.Masked
	switch {
	case g == nil && d.Masked:
		return &Refusal{Rule: RuleMasked, Public: "runs without masks are not allowed on dataset " + d.Name}
	case g == nil:
		return nil
	case g.Quorum < d.LeastSites:
		return &Refusal{Rule: RuleLeastSites, Public: fmt.Sprintf("sums need only %d sites; the minimum is %d on "+
			"dataset %s; raise aggregation.quorum", g.Quorum, d.LeastSites, d.Name)}
	case g.Colluding < d.LeastColluding:
		return &Refusal{Rule: RuleLeastColluding, Public: fmt.Sprintf("the run states colluding: %d; "+
			"the minimum is %d on dataset %s; raise aggregation.colluding", g.Colluding, d.LeastColluding, d.Name)}
	case len(d.Peers) == 0 && d.Approval == Automatic:
		return &Refusal{Rule: RulePeers, Public: fmt.Sprintf("no peers are listed for dataset %s, so nobody checks "+
			"the members of a masked run; list them, or approve by hand", d.Name)}
	case len(d.Peers) == 0:
		return nil // a person reviews them
	}
	var strange []string
	for _, m := range g.Members {
		if known, key := d.peer(m.Site); known && key != m.Key {
			strange = append(strange, m.Site+" with another key")
		} else if !known && m.Site != own {
			strange = append(strange, m.Site)
		}
	}
	if len(strange) == 0 {
		return nil
	}
	return &Refusal{Rule: RulePeers, Public: fmt.Sprintf("the run has members that are not peers on dataset %s: %s",
		d.Name, shortList(strange))}
}

// MostMembers is the largest number of members that the peers allow a masked run of a site; 0 without peers, which
// leaves the number open.
func (d *Dataset) MostMembers(own string) int {
	if len(d.Peers) == 0 {
		return 0
	}
	n := len(d.Peers)
	if known, _ := d.peer(own); !known {
		n++
	}
	return n
}

// masksAllowed describes what the rules about masks allow.
func (d *Dataset) masksAllowed() string {
	if !d.Masked {
		return "runs with and without masks"
	}
	return fmt.Sprintf("masked runs, with at least %d sites in each sum, that withstand at least %d colluding",
		max(2, d.LeastSites), d.LeastColluding)
}

// peer is the key of a site among the peers.
func (d *Dataset) peer(site string) (known bool, key masking.Fingerprint) {
	for _, p := range d.Peers {
		if p.Site == site {
			key, err := masking.ParseFingerprint(p.Key)
			return err == nil, key
		}
	}
	return false, key
}

// maxNamed is how many members a refusal names.
const maxNamed = 5

func shortList(names []string) string {
	if n := len(names); n > maxNamed {
		names = append(names[:maxNamed:maxNamed], fmt.Sprintf("%d more", n-maxNamed))
	}
	return strings.Join(names, ", ")
}

// reveals are the openings of a masked run's newest round that the site has charged. Rounds come in order.
type reveals struct {
	round uint64
	made  int
	// planned and uses are what the first opening used of the plan; further ones use the same.
	planned int
	uses    int64
}

// of reports whether a round is the newest.
func (a reveals) of(round uint64) bool { return a.made > 0 && a.round == round }

// another reports whether a question is a further opening of a masked round. It is charged to the site's limit, but
// not to the run's plan and budget, which count a round once.
func (r *runBook) another(t Request) (again bool, refusal *Refusal) {
	a := r.reveals
	if t.Spec.Masked == nil || a.made == 0 || t.Round > a.round {
		return false, nil
	}
	refuse := func(format string, args ...any) (bool, *Refusal) {
		return false, &Refusal{Rule: RuleReveals, Public: fmt.Sprintf(format, args...)}
	}
	switch {
	case t.Round < a.round:
		return refuse("round %d of run %s comes after round %d was opened here; a masked run continues from its "+
			"newest round", t.Round, t.Run, a.round)
	case a.planned != t.Use.Planned || a.uses != t.Use.Queries:
		return refuse("another opening of round %d of run %s uses other plan entries than the first",
			t.Round, t.Run)
	case a.made > masking.Retries:
		return refuse("seeds of round %d of run %s were revealed %d times here, the maximum; open another "+
			"run", t.Round, t.Run, a.made)
	}
	return true, nil
}

// RevealsAtMost is how often a site may be charged for one round: once, except in masked runs, where each attempt
// that its node opens is charged.
func (s Spec) RevealsAtMost() int {
	if s.Masked == nil {
		return 1
	}
	return 1 + masking.Retries
}
