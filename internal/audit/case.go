package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
)

const (
	// A run asks this many rounds of this many queries. The same teacher votes differently in all of them, so
	// composition is tested too.
	voteRounds, voteQueries = 2, 4
	// countScale is the fixed-point unit of the class counts.
	countScale = 1 << 16
	// thresholdNoise is the ratio of sigma1 to sigma2 in Confident-GNMax.
	thresholdNoise = 1.5
)

// scenario is a case: what a run asks, at what price, and the two worlds.
type scenario struct {
	name string
	kind privacy.Kind
	// planned pays for all questions, and is the first entry of the plan; see cheap.
	planned         privacy.Planned
	rounds, queries int
	// votes is the histogram of every query in world 0. In world 1 one vote has moved from class 0 to class 1, or
	// one at each of overlap sites.
	votes   [2]int64
	overlap int // as in budgets
	// units are the class counts of world 0. World 1 lacks a unit of class 0.
	units     [2]int64
	statistic statistic
	masked    *masked // nil if the aggregator sees the answers
}

// Worst-case votes. If only the winner is released, the moved vote has to decide between the two. Noisy counts
// show every move equally.
var (
	nearTie = [2]int64{6, 5}
	units   = [2]int64{3, 2}
)

// makers makes the cases for runs with a budget, in the order of [Cases].
var makers = []struct {
	name string
	kind privacy.Kind
	make func(s *scenario, b privacy.Budget) error
}{
	{"gnmax-winner", privacy.GNMax, func(s *scenario, b privacy.Budget) error { return s.gnmax(b, false) }},
	{"gnmax-histogram", privacy.GNMax, func(s *scenario, b privacy.Budget) error { return s.gnmax(b, true) }},
	{"gnmax-overlap", privacy.GNMax, (*scenario).overlapping},
	{"confident-gnmax", privacy.ConfidentGNMax, (*scenario).confident},
	{"lnmax-winner", privacy.LNMax, func(s *scenario, b privacy.Budget) error { return s.lnmax(b, false) }},
	{"lnmax-histogram", privacy.LNMax, func(s *scenario, b privacy.Budget) error { return s.lnmax(b, true) }},
	{"class-counts", privacy.Laplace, (*scenario).classCounts},
	{"masked", privacy.Gaussian, (*scenario).maskedCounts},
}

// Cases returns the names of the cases that can be audited.
func Cases() []string {
	var names []string
	for _, m := range makers {
		names = append(names, m.name)
	}
	return names
}

// Select returns the cases that a word names: all, a mechanism by its name in the ledger (gnmax, confident-gnmax,
// lnmax, laplace, gaussian), or one case.
func Select(word string) ([]string, error) {
	var names []string
	for _, m := range makers {
		if word == "all" || word == m.name || word == string(m.kind) {
			names = append(names, m.name)
		}
	}
	if names == nil {
		return nil, fmt.Errorf("%q is not a mechanism; use all, gnmax, confident-gnmax, lnmax, laplace, gaussian, or "+
			"one case of %s", word, strings.Join(Cases(), ", "))
	}
	return names, nil
}

// scenarios calibrates the named cases so that a run spends its budget.
func scenarios(names []string, b privacy.Budget) ([]*scenario, error) {
	var all []*scenario
	for _, m := range makers {
		if !slices.Contains(names, m.name) {
			continue
		}
		s := &scenario{name: m.name, kind: m.kind, rounds: voteRounds, queries: voteQueries, votes: nearTie}
		if err := m.make(s, b); err != nil {
			return nil, fmt.Errorf("case %s: %w", m.name, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no case of %s was given", strings.Join(Cases(), ", "))
	}
	return all, nil
}

func (s *scenario) asked() int64 { return int64(s.rounds * s.queries) }

func (s *scenario) votedOn(mechanism privacy.Event, whole bool) {
	s.planned = privacy.Planned{Kind: runspec.Votes, Count: s.asked(), Mechanism: mechanism}
	if whole {
		s.planned.Variant = privacy.Histogram
	}
}

// cheap is an extra entry in a run's plan: the same question for almost nothing. No round names it. The audit
// detects an aggregator that charges this entry but draws the promised noise.
func (s *scenario) cheap() privacy.Planned {
	const times = 1e6
	p := s.planned
	m := &p.Mechanism
	m.Sigma, m.Sigma1, m.Sigma2 = times*m.Sigma, times*m.Sigma1, times*m.Sigma2
	m.Lambda, m.Epsilon = m.Lambda/times, m.Epsilon/times
	return p
}

// counts reports whether units are counted, instead of votes.
func (s *scenario) counts() bool { return s.planned.Kind == runspec.ClassCounts }

func (s *scenario) gnmax(b privacy.Budget, whole bool) error {
	sigma, err := privacy.GNMaxSigma(b, s.asked(), nil)
	if err != nil {
		return err
	}
	s.votedOn(b.Event(privacy.Event{Kind: privacy.GNMax, Sigma: sigma}), whole)
	s.statistic = perQuery(s.queries, whole, gaussianRatio(s.votes, sigma))
	return nil
}

// overlapping releases noisy counts for a unit that is at both sites: one vote moves at each.
func (s *scenario) overlapping(b privacy.Budget) error {
	b = b.WithOverlap(2)
	s.overlap = b.Overlap
	return s.gnmax(b, true)
}

// confident makes all teachers agree, about one sigma1 above the threshold. The moved vote then changes the
// largest count and shows in the test as well, and most questions are answered.
func (s *scenario) confident(b privacy.Budget) error {
	sigma, err := privacy.GNMaxSigma(b, s.asked(), nil)
	if err != nil {
		return err
	}
	// Test and answer together cost as much as a GNMax of this sigma.
	sigma2 := sigma * math.Sqrt(1+1/(2*thresholdNoise*thresholdNoise))
	sigma1 := thresholdNoise * sigma2
	margin := math.Ceil(sigma1)
	s.votes = [2]int64{int64(margin) + 10, 0}
	threshold := float64(s.votes[0]) - margin
	s.votedOn(privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: threshold, Sigma1: sigma1, Sigma2: sigma2}, true)
	s.statistic = perQuery(s.queries, true, confidentRatio(s.votes, threshold, sigma1, sigma2))
	return nil
}

func (s *scenario) lnmax(b privacy.Budget, whole bool) error {
	lambda, err := privacy.LNMaxLambda(b, s.asked(), nil)
	if err != nil {
		return err
	}
	s.votedOn(privacy.Event{Kind: privacy.LNMax, Lambda: lambda}, whole)
	s.statistic = perQuery(s.queries, whole, laplaceRatio(s.votes, lambda))
	return nil
}

// classCounts asks once, as students do.
func (s *scenario) classCounts(b privacy.Budget) error {
	s.planned = privacy.Planned{Kind: runspec.ClassCounts, Count: 1,
		Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: b.Epsilon}}
	s.rounds, s.queries, s.units = 1, 1, units
	s.statistic = countRatio(units[0]*countScale, countScale, b.Epsilon)
	return nil
}
