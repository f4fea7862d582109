package report

import (
	"strings"
	"testing"
)

// What was asked after the training is told apart from it.
func TestStagesAreNoRoundsOfTheTraining(t *testing.T) {
	start := Round{Purpose: "embedding", Queries: 20, Answered: 20, EpsilonSpent: 0.5}
	votes := Round{Round: 1, Purpose: "labels", Queries: 64, Answered: 64}
	sum := Round{Round: 2, Purpose: "discriminator", Queries: 31, Answered: 31}
	selection := Round{Round: 3, Purpose: "selection", Queries: 1, Answered: 1}
	gaussian := Round{Round: 4, Purpose: "weights", Queries: 15, Answered: 15}
	pure := Round{Round: 4, Purpose: "weights", Queries: 1, Answered: 1}
	const (
		trained  = "In 1 round, all 64 questions were answered."
		selected = "After the training 2 selections of one of the stored discriminators were made"
		network  = "A network that rows are weighted by learned from 1 sum over samples of the records, each of 31 " +
			"numbers with noise."
		fifteen = "The coefficients of the regression that rows are weighted by, 15 numbers in all, were released " +
			"with noise."
		some = "The coefficients of the regression that rows are weighted by were released with noise."
	)
	for name, c := range map[string]struct {
		rounds   []Round
		pipeline string
		title    string
		says     []string
		not      []string
	}{
		"no stage": {[]Round{votes}, "pategan", "How far the teachers agreed", []string{trained},
			[]string{"After", "weighted"}},
		"all": {[]Round{start, votes, selection, selection, sum, gaussian}, "pategan",
			"How far the teachers agreed", []string{"epsilon 0.5", trained, selected, network, fifteen}, nil},
		"pure noise": {[]Round{votes, pure}, "pategan", "How far the teachers agreed", []string{trained, some},
			[]string{"numbers in all"}},
		"of embed": {[]Round{start, sum, gaussian}, "embed", "What was asked",
			[]string{"One question was asked", network, fifteen}, []string{"were answered"}},
		"dpgan's training": {[]Round{sum}, "dpgan", "How far the teachers agreed",
			[]string{"In 1 round, all 31 questions were answered."}, []string{"A network"}},
	} {
		a := newAgreement(c.rounds, c.pipeline)
		if a.Title != c.title {
			t.Errorf("%s: title %q", name, a.Title)
		}
		for _, s := range c.says {
			if !strings.Contains(a.Counts, s) {
				t.Errorf("%s: %q does not say %q", name, a.Counts, s)
			}
		}
		for _, s := range c.not {
			if strings.Contains(a.Counts, s) {
				t.Errorf("%s: %q says %q", name, a.Counts, s)
			}
		}
	}
}

// The page of stages that followed a finished run says that the figures are those of both.
func TestEarlierRunsAreNamed(t *testing.T) {
	p := fullPage(t)
	if says := explain(p.Certificate).Whom; strings.Contains(says, "went on") {
		t.Errorf("a run by itself: %q", says)
	}
	p.Certificate.Earlier = []string{"first"}
	if says := explain(p.Certificate).Whom; !strings.Contains(says, "first too, from which this run went on") {
		t.Errorf("a stage: %q", says)
	}
}
