package report

import (
	"strings"
	"testing"
)

// Questions after the training are distinguished from the training.
func TestStagesAreNoRoundsOfTheTraining(t *testing.T) {
	start := Round{Kind: "embedding", Entries: 20, Queries: 1, Answered: 1, EpsilonSpent: 0.5}
	votes := Round{Round: 1, Kind: "votes", Queries: 64, Answered: 64}
	step := Round{Round: 2, Kind: "discriminator", Entries: 31, Queries: 1, Answered: 1}
	sum := step
	sum.Stage = "sampled"
	selection := Round{Round: 3, Kind: "scores", Stage: "selections", Queries: 1, Answered: 1}
	fit := Round{Round: 4, Kind: "fit", Stage: "fit", Entries: 15, Queries: 1, Answered: 1}
	const (
		trained  = "In 1 round, all 64 questions were answered."
		selected = "After the training, 2 selections of one of the stored discriminators were"
		network  = "The weighting network learned from 1 sum over samples of the records, each of 31 numbers with " +
			"noise."
		fifteen = "The coefficients of the weighting regression, 15 numbers in total, were released with noise."
	)
	for name, c := range map[string]struct {
		rounds []Round
		title  string
		says   []string
		not    []string
	}{
		"no stage": {[]Round{votes}, "How far the teachers agreed", []string{trained}, []string{"After", "weighted"}},
		"all": {[]Round{start, votes, selection, selection, sum, fit}, "How far the teachers agreed",
			[]string{"epsilon 0.5", trained, selected, network, fifteen}, nil},
		"of embed": {[]Round{start, sum, fit}, "What was asked",
			[]string{"There was one question", network, fifteen}, []string{"were answered"}},
		"dpgan's training": {[]Round{step, step}, "What was asked",
			[]string{"In 2 rounds, all 2 questions were answered."}, []string{"A network"}},
	} {
		a := newAgreement(c.rounds, c.title != "What was asked")
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

// The page of stages after a finished run says that the figures cover both.
func TestEarlierRunsAreNamed(t *testing.T) {
	p := fullPage(t)
	if says := explained(t, p).Whom; strings.Contains(says, "went on") {
		t.Errorf("a run by itself: %q", says)
	}
	p.Certificate.Earlier = []string{"first"}
	if says := explained(t, p).Whom; !strings.Contains(says, "first, which this run continued") {
		t.Errorf("a stage: %q", says)
	}
}
