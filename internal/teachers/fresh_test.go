package teachers

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// freshRound asks teachers with a hidden layer, which start afresh, for a sum.
func freshRound(run string, number uint64) *round {
	r := sumRound(run, number, 0)
	teacher := r.sum.Teacher
	teacher.Fresh, teacher.Model, teacher.Hidden, teacher.Batch = true, conclavev1.TeacherSpec_MODEL_HIDDEN, 6, 3
	return r
}

// numbered is a round that holds the records of another.
func numbered(r *round, number uint64) *round {
	r.number = number
	return r
}

// The answer of fresh teachers depends only on the question: neither on earlier rounds nor on the state folder.
func TestFreshTeachersForget(t *testing.T) {
	table, state := questiontest.SmallTable(t, 80, 1), t.TempDir()
	site := questiontest.SiteIn(t, table, 4, state)
	first := gradientSumOf(t, site, freshRound("r", 1))
	if slices.Max(first) == 0 {
		t.Fatal("the sum is empty")
	}
	other := gradientSumOf(t, site, freshRound("r", 2))
	if slices.Equal(first, other) {
		t.Error("other records have the same gradients")
	}
	if again := gradientSumOf(t, site, numbered(freshRound("r", 1), 3)); !slices.Equal(first, again) {
		t.Error("after other rounds the same question is answered otherwise")
	}
	if current(site).ensemble.Steps() != 0 || len(weights(site)) != 0 {
		t.Errorf("%d steps and %d weights are kept", current(site).ensemble.Steps(), len(weights(site)))
	}
	// The file holds the answer, but no weights of 4 x 2 networks.
	info, err := os.Stat(statePath(state, "r"))
	testkit.Must(t, err)
	if info.Size() > 2000 {
		t.Errorf("the state file has %d bytes", info.Size())
	}

	// Killed, started again with its state, and with no state at all.
	site = questiontest.SiteIn(t, table, 4, state)
	if again := gradientSumOf(t, site, numbered(freshRound("r", 1), 3)); !slices.Equal(first, again) {
		t.Error("after a start the round asked again is answered otherwise")
	}
	testkit.Must(t, os.Remove(statePath(state, "r")))
	site = questiontest.SiteIn(t, table, 4, state)
	if again := gradientSumOf(t, site, numbered(freshRound("r", 2), 4)); !slices.Equal(other, again) {
		t.Error("without its state the node answers otherwise")
	}
	if again := gradientSumOf(t, site, freshRound("another", 1)); !slices.Equal(first, again) {
		t.Error("in another run the same question is answered otherwise")
	}
}

// Fresh teachers of all nodes begin with the same weights: with the same records, all of
// them in a batch, those of two nodes give the same gradients. Others do not.
func TestFreshTeachersBeginAlike(t *testing.T) {
	near, far := smallSite(t, 3), questiontest.Site(t, questiontest.SmallTable(t, 60, 2), 3)
	far.Seed, far.Examples = near.Seed+1, near.Examples
	for _, fresh := range []bool{true, false} {
		r := freshRound(map[bool]string{true: "fresh", false: "kept"}[fresh], 1)
		r.sum.Teacher.Fresh, r.sum.Teacher.Batch = fresh, 1000
		if a, b := gradientSumOf(t, near, r), gradientSumOf(t, far, r); slices.Equal(a, b) != fresh {
			t.Errorf("fresh %v: the gradients of two nodes are the same is %v", fresh, !fresh)
		}
	}
}

// Only one network of fresh teachers is kept, so that they may be larger than others.
func TestFreshTeachersMayBeMany(t *testing.T) {
	site := smallSite(t, 3)
	site.Teachers = 1 << 20
	teacher := teacherstest.Teacher()
	teacher.Vote, teacher.Model, teacher.Hidden = gradientVote, conclavev1.TeacherSpec_MODEL_HIDDEN, 100
	_, err := specOf(site.Public, teacher)
	if err == nil || !strings.Contains(err.Error(), "use a smaller hidden layer") {
		t.Errorf("a million kept teachers: %v", err)
	}
	teacher.Fresh = true
	spec, err := specOf(site.Public, teacher)
	testkit.Must(t, err)
	if _, err := spec.ensemble(); err != nil {
		t.Errorf("a million fresh teachers: %v", err)
	}
}
