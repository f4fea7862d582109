package teachers

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestVotesAreThoseOfTheTrainedTeachers(t *testing.T) {
	for _, features := range []conclavev1.TeacherSpec_Features{plain, standard} {
		t.Run(features.String(), func(t *testing.T) {
			site := smallSite(t, 4)
			votesOf(t, site, voteRound("other", 1)) // which leaves nothing behind
			r := voteRound("r", 1)
			r.vote.Teacher.Features = features
			packed := votesOf(t, site, r)
			// The same, done by hand.
			a, err := readBatch(site.Public, r.vote)
			testkit.Must(t, err)
			e, err := a.spec.ensemble()
			testkit.Must(t, err)
			examples, training, queries := site.Examples, a.training.x, a.queries.x
			if features == standard {
				// x is the one number
				units, err := scaling.New(training, a.training.classes, questiontest.SmallFeatures, 2, []int{0})
				testkit.Must(t, err)
				examples = make([]ensemble.Examples, 4)
				for i, e := range site.Examples {
					for c, x := range e.ByClass {
						classes := slices.Repeat([]int{c}, len(x)/questiontest.SmallFeatures)
						examples[i].ByClass = append(examples[i].ByClass, units.All(x, classes))
					}
				}
				training, queries = units.All(training, a.training.classes), units.All(queries, a.queries.classes)
			}
			testkit.Must(t, e.Train(examples, training, a.training.classes, 5, 8))
			scores := make([]float32, 4*12)
			testkit.Must(t, e.Score(scores, queries, a.queries.classes))
			want := castVotes(relativeVote, a.spec.Seed, 1, scores, a.queries.classes)
			if got := questiontest.Unpack(t, packed, 4, 12, 2); !slices.Equal(got, want) {
				t.Errorf("votes %v, want %v", got, want)
			}
			if e.Steps() != 5 || current(site).ensemble.Steps() != 5 {
				t.Errorf("%d steps by hand, %d by the node, want 5", e.Steps(), current(site).ensemble.Steps())
			}
		})
	}
}

func TestARepeatedRoundGetsTheSameVotesAndTrainsNobody(t *testing.T) {
	site := smallSite(t, 4)
	for number := range uint64(3) {
		first := votesOf(t, site, voteRound("r", number))
		before := weights(site)
		file := testkit.Read(t, statePath(site.State, "r"))
		again := votesOf(t, site, voteRound("r", number))
		if !bytes.Equal(first, again) {
			t.Errorf("round %d asked again: votes %x, before %x", number, again, first)
		}
		now := testkit.Read(t, statePath(site.State, "r"))
		if !slices.Equal(weights(site), before) || !bytes.Equal(now, file) {
			t.Errorf("round %d asked again: the teachers were trained", number)
		}
		if want := 5 * (int(number) + 1); current(site).ensemble.Steps() != want {
			t.Errorf("%d steps after round %d, want %d", current(site).ensemble.Steps(), number, want)
		}
	}
}

// A run is of fresh teachers or of others, and of those that it began with.
func TestARunKeepsItsTeachers(t *testing.T) {
	kept := func(number uint64, change func(*conclavev1.TeacherSpec)) *round {
		r := voteRound("r", number)
		change(r.vote.Teacher)
		return r
	}
	fresh := func(number uint64, change func(*conclavev1.TeacherSpec)) *round {
		r := freshRound("r", number)
		change(r.sum.Teacher)
		return r
	}
	for name, c := range map[string]struct {
		round  func(number uint64, change func(*conclavev1.TeacherSpec)) *round
		change func(*conclavev1.TeacherSpec)
	}{
		"rate":  {kept, func(s *conclavev1.TeacherSpec) { s.LearningRate = 0.2 }},
		"decay": {kept, func(s *conclavev1.TeacherSpec) { s.WeightDecay = 0.2 }},
		"seed":  {kept, func(s *conclavev1.TeacherSpec) { s.Seed = 8 }},
		"view":  {kept, func(s *conclavev1.TeacherSpec) { s.Features = standard }},
		"model": {kept,
			func(s *conclavev1.TeacherSpec) { s.Model, s.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, 2 }},
		"keeping":    {fresh, func(s *conclavev1.TeacherSpec) { s.Fresh = false }},
		"fresh seed": {fresh, func(s *conclavev1.TeacherSpec) { s.Seed++ }},
	} {
		site, none := smallSite(t, 2), func(*conclavev1.TeacherSpec) {}
		first := c.round(1, none)
		_, err := ask(site, first)
		testkit.Must(t, err)
		before := weights(site)
		for range 2 { // from memory, and from the disk
			if a, err := ask(site, c.round(2, c.change)); err != errOtherTeachers {
				t.Errorf("another %s: %v (%v), want a refusal", name, a, err)
			}
			forget(site)
		}
		_, err = ask(site, first)
		testkit.Must(t, err)
		if !slices.Equal(before, weights(site)) {
			t.Errorf("another %s: the teachers changed", name)
		}
	}
}

func TestARoundBeforeTheLastIsRefused(t *testing.T) {
	site := smallSite(t, 2)
	votesOf(t, site, voteRound("r", 5))
	before := weights(site)
	if got := reason(site, voteRound("r", 4)); !strings.Contains(got, "round 4 of run \"r\" comes after round 5") {
		t.Errorf("round 4 after round 5: refused with %q", got)
	}
	if !slices.Equal(before, weights(site)) {
		t.Error("the refused round trained the teachers")
	}
	// Another question for the last round is one that was never released.
	other := voteRound("r", 5)
	other.vote.Teacher.Steps = 6
	votesOf(t, site, other)
	if got := current(site).ensemble.Steps(); got != 11 {
		t.Errorf("%d steps, want 5 and 6", got)
	}
}

func TestRunsTakeTurnsWithoutDisturbingEachOther(t *testing.T) {
	both, alone := smallSite(t, 4), smallSite(t, 4)
	for number := range uint64(3) {
		votesOf(t, both, voteRound("other", number+7))
		got, want := votesOf(t, both, voteRound("r", number)), votesOf(t, alone, voteRound("r", number))
		if !bytes.Equal(got, want) {
			t.Errorf("round %d: votes %x with another run between, %x without", number, got, want)
		}
	}
	sameState(t, "with another run between", both, alone)
}

// Coin flips are the baseline that must have seen nothing.
func TestCoinVotesTrainNobody(t *testing.T) {
	site := smallSite(t, 4)
	r := voteRound("r", 1)
	r.vote.Teacher.Vote = coinVote
	other := questiontest.Site(t, questiontest.SmallTable(t, 200, 9), 4)
	if a, b := votesOf(t, site, r), votesOf(t, other, r); !bytes.Equal(a, b) {
		t.Errorf("coin votes %x and %x depend on the records", a, b)
	}
	if current(site).ensemble.Steps() != 0 {
		t.Errorf("%d steps were taken", current(site).ensemble.Steps())
	}
}
