package teachers

import (
	"fmt"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// round is a question in a round of a run: votes, votes on gradients, or a sum.
type round struct {
	run    string
	number uint64
	vote   *conclavev1.VoteQuestion
	sum    *conclavev1.GradientSum
}

// smallSite has about 20 records of questiontest.SmallSchema for each teacher.
func smallSite(t testing.TB, teachers int) *question.Site {
	t.Helper()
	return questiontest.Site(t, questiontest.SmallTable(t, 20*teachers, 1), teachers)
}

func voteRound(run string, number uint64) *round {
	return &round{run: run, number: number, vote: teacherstest.Votes(number)}
}

func gradientRound(run string, number uint64) *round {
	return &round{run: run, number: number, vote: teacherstest.GradientVotes(number)}
}

func sumRound(run string, number uint64, clip float64) *round {
	return &round{run: run, number: number, sum: teacherstest.GradientSum(number, clip)}
}

// ask asks a site a round.
func ask(site *question.Site, r *round) (questiontest.Answer, error) {
	switch {
	case r.sum != nil:
		return questiontest.Ask(site, GradientSum, r.sum, r.run, r.number)
	case r.vote.GetGradient() != nil:
		return questiontest.Ask(site, GradientVotes, r.vote, r.run, r.number)
	}
	return questiontest.Ask(site, Votes, r.vote, r.run, r.number)
}

// reason is the reason of a refusal, empty if the round was answered.
func reason(site *question.Site, r *round) string {
	if _, err := ask(site, r); err != nil {
		return err.Error()
	}
	return ""
}

// votesOf asks a round of votes that must be answered and returns them packed.
func votesOf(t testing.TB, site *question.Site, r *round) []byte {
	t.Helper()
	a, err := ask(site, r)
	if err != nil || a.Votes == nil {
		t.Fatalf("round %d was answered with %v (%v)", r.number, a, err)
	}
	return a.Votes
}

// gradientSumOf asks a round of a sum that must be answered.
func gradientSumOf(t testing.TB, site *question.Site, r *round) []int64 {
	t.Helper()
	a, err := ask(site, r)
	if err != nil || a.Sum == nil {
		t.Fatalf("round %d was answered with %v (%v)", r.number, a, err)
	}
	return a.Sum
}

// current is a site's memory of the run that was answered last.
func current(site *question.Site) *runState { return question.Memory[memory](site.Public).current }

// forget leaves a site with only the state on its disk.
func forget(site *question.Site) { question.Memory[memory](site.Public).current = nil }

func rowText(votes []uint8, teacher, queries int) string {
	return fmt.Sprint(votes[teacher*queries : (teacher+1)*queries])
}

const (
	plain    = conclavev1.TeacherSpec_FEATURES_PLAIN
	standard = conclavev1.TeacherSpec_FEATURES_STANDARD
)
