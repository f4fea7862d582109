package pategan

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func votes(teachers uint32, labels []int32, histogram ...int64) *conclavev1.Release {
	return &conclavev1.Release{Round: 3, Teachers: teachers, EpsilonSpent: 0.5, Answer: &conclavev1.Release_Votes{
		Votes: &conclavev1.NoisyVotes{Classes: 2, Labels: labels, Histogram: histogram},
	}}
}

func TestSharesOfNoisyHistograms(t *testing.T) {
	// fake, real of: all real, all fake, a draw, three of four real, not
	// answered, and a noisy histogram that leaves [0, 1].
	got, err := votesOf(votes(40, []int32{1, 0, 0, 1, -1, 1}, 0, 40, 40, 0, 20, 20, 10, 30, 0, 0, -10, 60), 6)
	testkit.Must(t, err)
	testkit.Same(t, "", []float32{1, 0, 0.5, 0.75, 0, 1.375}, got.Share)
	testkit.Same(t, "", []bool{true, true, true, true, false, true}, got.Answered)
	if got.EpsilonSpent != 0.5 {
		t.Errorf("epsilon spent %v, want 0.5", got.EpsilonSpent)
	}
	// Noise that adds the same to both counts changes nothing.
	for _, shift := range []int64{-7, 1000} {
		if got, err := votesOf(votes(40, []int32{1}, 10+shift, 30+shift), 1); err != nil || got.Share[0] != 0.75 {
			t.Errorf("shift %d: share %v (%v), want 0.75", shift, got, err)
		}
	}
}

func TestSharesOfWinners(t *testing.T) {
	got, err := votesOf(votes(40, []int32{1, -1, 0}), 3)
	testkit.Must(t, err)
	if !cmp.Equal([]float32{1, 0, 0}, got.Share) || !cmp.Equal([]bool{true, false, true}, got.Answered) {
		t.Errorf("shares %v, answered %v", got.Share, got.Answered)
	}
}

func TestReleasesThatDoNotFitAreRefused(t *testing.T) {
	sum := &conclavev1.Release{Teachers: 3,
		Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: []int64{1, 2}, Scale: 4}}}
	for name, r := range map[string]*conclavev1.Release{
		"nothing":             {Teachers: 3},
		"a sum":               sum,
		"too few labels":      votes(3, []int32{1}),
		"too many labels":     votes(3, []int32{1, 1, 1}),
		"half a histogram":    votes(3, []int32{1, 1}, 1, 2),
		"no teachers":         votes(0, []int32{1, 1}),
		"an unknown class":    votes(3, []int32{1, 2}),
		"no release whatever": nil,
	} {
		if _, err := votesOf(r, 2); err == nil {
			t.Errorf("votes: %s was accepted", name)
		}
	}
}

func TestTeachersAreToldHowToVote(t *testing.T) {
	for _, c := range []struct {
		votes Vote
		coin  bool
		want  conclavev1.TeacherSpec_Vote
	}{
		{Calibrated, false, conclavev1.TeacherSpec_VOTE_CALIBRATED},
		{Relative, false, conclavev1.TeacherSpec_VOTE_RELATIVE},
		{Plain, false, conclavev1.TeacherSpec_VOTE_PLAIN},
		{Plain, true, conclavev1.TeacherSpec_VOTE_COIN},
	} {
		o := DefaultOptions()
		o.Votes = c.votes
		if got := (&training{o, pipeline.Problem{Classes: 2}}).teacherSpec(c.coin); got.Vote != c.want ||
			got.Model != conclavev1.TeacherSpec_MODEL_LOGISTIC || got.Hidden != 0 {
			t.Errorf("%s, coin %v: %v", c.votes, c.coin, got)
		}
	}
	o := DefaultOptions()
	o.Teacher.Model, o.Teacher.Hidden = "hidden", 5
	got := (&training{o, pipeline.Problem{Classes: 3}}).teacherSpec(false)
	if got.Model != conclavev1.TeacherSpec_MODEL_HIDDEN || got.Hidden != 5 || got.Classes != 3 {
		t.Errorf("hidden layer: %v", got)
	}
}

// The noise on a share is that of half the difference of two noisy counts.
func TestShareNoise(t *testing.T) {
	for _, c := range []struct {
		planned privacy.Planned
		want    float64
	}{
		{privacy.Planned{Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 50}, Variant: privacy.Histogram},
			50 / math.Sqrt2 / 100},
		{privacy.Planned{Mechanism: privacy.Event{Kind: privacy.ConfidentGNMax, Sigma2: 50, Sigma1: 9},
			Variant: privacy.Histogram}, 50 / math.Sqrt2 / 100},
		{privacy.Planned{Mechanism: privacy.Event{Kind: privacy.LNMax, Lambda: 0.1}, Variant: privacy.Histogram}, 0.1},
		{privacy.Planned{Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 50}}, 0.5},
	} {
		if got := shareNoise(c.planned, 100); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: noise %v, want %v", c.planned, got, c.want)
		}
	}
}

// Numbers and answered shares of the stored rounds. An unanswered query has no share, and neither have winners.
func TestReleasedVotesAreAnsweredShares(t *testing.T) {
	trainer := &Trainer{NetworkStudent: &pipeline.NetworkStudent{Done: 7}, opts: DefaultOptions(), rounds: []*labelled{
		{share: []float32{0.25, 0.5, 1.25}, known: []float32{1, 0, 1}, noise: 0.1},
		{share: []float32{0}, known: []float32{0}, noise: 0.2},
	}}
	want := []pipeline.ReleasedVotes{{Round: 6, Shares: []float32{0.25, 1.25}, Noise: 0.1}, {Round: 7, Noise: 0.2}}
	testkit.Same(t, "", want, trainer.Votes())
	trainer.opts.Release = "winner"
	if shares := trainer.Votes(); shares != nil {
		t.Errorf("of winners: %v", shares)
	}
}
