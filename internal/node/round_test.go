package node

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestVotesAreThoseOfTheTrainedTeachers(t *testing.T) {
	for _, features := range []conclavev1.TeacherSpec_Features{conclavev1.TeacherSpec_FEATURES_PLAIN, conclavev1.TeacherSpec_FEATURES_STANDARD} {
		t.Run(features.String(), func(t *testing.T) {
			n := smallNode(t, 4)
			votesOf(t, n, voteRound("other", 1)) // which leaves nothing behind
			r := voteRound("r", 1)
			r.GetVote().Teacher.Features = features
			m := ask(t, n, r).GetVotes()
			if m == nil || m.Run != "r" || m.Round != 1 || m.Teachers != 4 || m.Queries != 12 {
				t.Fatalf("answered with %v", m)
			}
			// The same, done by hand.
			e := mustEnsemble(t, n, r.GetVote())
			a, err := n.checkVote(r.GetVote())
			testkit.Must(t, err)
			examples, training, queries := n.examples, a.training.x, a.queries.x
			if features == conclavev1.TeacherSpec_FEATURES_STANDARD {
				units, err := nn.NewStandard(training, a.training.classes, smallFeatures, 2, []int{0}) // x is the one number
				testkit.Must(t, err)
				examples = make([]nn.Examples, 4)
				for i, e := range n.examples {
					for c, x := range e.ByClass {
						examples[i].ByClass = append(examples[i].ByClass, units.All(x, slices.Repeat([]int{c}, len(x)/smallFeatures)))
					}
				}
				training, queries = units.All(training, a.training.classes), units.All(queries, a.queries.classes)
			}
			testkit.Must(t, e.Train(examples, training, a.training.classes, 5, 8))
			scores := make([]float32, 4*12)
			testkit.Must(t, e.Score(scores, queries, a.queries.classes))
			want := castVotes(relativeVote, a.spec.Seed, 1, scores, a.queries.classes)
			if got := unpack(t, m.Packed, 4, 12, 2); !slices.Equal(got, want) {
				t.Errorf("votes %v, want %v", got, want)
			}
			if e.Steps() != 5 || n.current.ensemble.Steps() != 5 {
				t.Errorf("%d steps by hand, %d by the node, want 5", e.Steps(), n.current.ensemble.Steps())
			}
		})
	}
}

func TestARepeatedRoundGetsTheSameVotesAndTrainsNobody(t *testing.T) {
	n := smallNode(t, 4)
	for number := range uint64(3) {
		first := votesOf(t, n, voteRound("r", number))
		before := weights(n)
		file, err := os.ReadFile(statePath(n.cfg.State, "r"))
		testkit.Must(t, err)
		again := votesOf(t, n, voteRound("r", number))
		if !bytes.Equal(first, again) {
			t.Errorf("round %d asked again: votes %x, before %x", number, again, first)
		}
		now, err := os.ReadFile(statePath(n.cfg.State, "r"))
		testkit.Must(t, err)
		if !slices.Equal(weights(n), before) || !bytes.Equal(now, file) {
			t.Errorf("round %d asked again: the teachers were trained", number)
		}
		if want := 5 * (int(number) + 1); n.current.ensemble.Steps() != want {
			t.Errorf("%d steps after round %d, want %d", n.current.ensemble.Steps(), number, want)
		}
	}
}

func TestARunKeepsItsTeachers(t *testing.T) {
	for name, change := range map[string]func(*conclavev1.TeacherSpec){
		"rate":  func(s *conclavev1.TeacherSpec) { s.LearningRate = 0.2 },
		"decay": func(s *conclavev1.TeacherSpec) { s.WeightDecay = 0.2 },
		"seed":  func(s *conclavev1.TeacherSpec) { s.Seed = 8 },
		"view":  func(s *conclavev1.TeacherSpec) { s.Features = conclavev1.TeacherSpec_FEATURES_STANDARD },
		"model": func(s *conclavev1.TeacherSpec) { s.Model, s.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, 2 },
	} {
		n := smallNode(t, 2)
		votesOf(t, n, voteRound("r", 1))
		before := weights(n)
		r := voteRound("r", 2)
		change(r.GetVote().Teacher)
		for _, forget := range []bool{false, true} { // from memory, and from the disk
			if forget {
				n.current = nil
			}
			m := ask(t, n, r)
			if m.GetRefusal() == nil || m.GetRefusal().Reason != errOtherTeachers.Error() {
				t.Errorf("another %s: %v, want a refusal", name, m)
			}
		}
		votesOf(t, n, voteRound("r", 1))
		if !slices.Equal(before, weights(n)) {
			t.Errorf("another %s: the teachers changed", name)
		}
	}
}

func TestARoundBeforeTheLastIsRefused(t *testing.T) {
	n := smallNode(t, 2)
	votesOf(t, n, voteRound("r", 5))
	before := weights(n)
	m := ask(t, n, voteRound("r", 4))
	if m.GetRefusal() == nil || !strings.Contains(m.GetRefusal().Reason, "round 4 of run \"r\" comes after round 5") {
		t.Errorf("round 4 after round 5: %v", m)
	}
	if !slices.Equal(before, weights(n)) {
		t.Error("the refused round trained the teachers")
	}
	// Another question for the last round is one that was never released.
	other := voteRound("r", 5)
	other.GetVote().Teacher.Steps = 6
	votesOf(t, n, other)
	if got := n.current.ensemble.Steps(); got != 11 {
		t.Errorf("%d steps, want 5 and 6", got)
	}
}

func TestRunsTakeTurnsWithoutDisturbingEachOther(t *testing.T) {
	table, c := smallTable(t, 80, 1), smallConfig(t, 4)
	both := start(t, c, table)
	alone := start(t, copyState(t, c), table)
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
	n := smallNode(t, 4)
	r := voteRound("r", 1)
	r.GetVote().Teacher.Vote = coinVote
	other := start(t, smallConfig(t, 4), smallTable(t, 200, 9))
	if a, b := votesOf(t, n, r), votesOf(t, other, r); !bytes.Equal(a, b) {
		t.Errorf("coin votes %x and %x depend on the records", a, b)
	}
	if n.current.ensemble.Steps() != 0 {
		t.Errorf("%d steps were taken", n.current.ensemble.Steps())
	}
}
