package teachers

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// weights returns a copy of all that training changes.
func weights(site *question.Site) []float32 {
	var all []float32
	for _, p := range current(site).ensemble.State() {
		all = append(all, p.Value...)
	}
	return all
}

// sameState compares the teachers of two nodes.
func sameState(t *testing.T, what string, a, b *question.Site) {
	t.Helper()
	if !slices.Equal(weights(a), weights(b)) || current(a).ensemble.Steps() != current(b).ensemble.Steps() {
		t.Errorf("%s: the teachers differ (%d and %d steps)",
			what, current(a).ensemble.Steps(), current(b).ensemble.Steps())
	}
	if x, y := current(a), current(b); x.rounds != y.rounds || x.lastRound != y.lastRound {
		t.Errorf("%s: %d rounds up to %d, and %d up to %d", what, x.rounds, x.lastRound, y.rounds, y.lastRound)
	}
}

// A node that was killed after any answer goes on as if it had not been.
func TestANodeThatStartsAgainGoesOnWhereItWas(t *testing.T) {
	table := questiontest.SmallTable(t, 80, 1)
	whole, killed := questiontest.Site(t, table, 4), questiontest.Site(t, table, 4)
	for number := range uint64(4) {
		r := voteRound("r", number)
		want, got := votesOf(t, whole, r), votesOf(t, killed, r)
		if !bytes.Equal(want, got) {
			t.Fatalf("round %d: votes %x, without the crash %x", number, got, want)
		}
		killed = questiontest.SiteIn(t, table, 4, killed.State)
		if again := votesOf(t, killed, r); !bytes.Equal(again, want) {
			t.Fatalf("round %d asked again after a start: votes %x, before %x", number, again, want)
		}
		sameState(t, "after a start", whole, killed)
	}
}

// A crash while the state is written leaves the one before: the round is
// answered again from there, with the same votes.
func TestARoundCutShortIsAnsweredTheSame(t *testing.T) {
	site := smallSite(t, 4)
	votesOf(t, site, voteRound("r", 1))
	path := statePath(site.State, "r")
	before := testkit.Read(t, path)
	want := votesOf(t, site, voteRound("r", 2))
	testkit.Must(t, os.WriteFile(path, before, 0o600))
	forget(site) // killed after training, before its state was saved
	if got := votesOf(t, site, voteRound("r", 2)); !bytes.Equal(got, want) {
		t.Errorf("votes %x, before the crash %x", got, want)
	}
}

// No answer leaves unsaved: the disk decides when the same round comes again. The path of the file stays at the site.
func TestVotesThatCannotBeKeptDoNotLeave(t *testing.T) {
	site := smallSite(t, 4)
	want := votesOf(t, smallSite(t, 4), voteRound("r", 1))
	away := site.State + "-away"
	testkit.Must(t, os.Rename(site.State, away))
	for range 2 {
		if a, err := ask(site, voteRound("r", 1)); !errors.Is(err, question.ErrState) {
			t.Fatalf("without a state folder: %v (%v), want the refusal %q", a, err, question.ErrState)
		}
	}
	testkit.Must(t, os.Rename(away, site.State))
	if got := votesOf(t, site, voteRound("r", 1)); !bytes.Equal(got, want) {
		t.Errorf("votes %x once the folder is back, want %x: the teachers were trained more than once", got, want)
	}
}

func TestDamagedStateIsRefusedWithoutDetails(t *testing.T) {
	site := smallSite(t, 4)
	votesOf(t, site, voteRound("r", 1))
	path := statePath(site.State, "r")
	good, err := safetensors.Load(path)
	testkit.Must(t, err)
	for name, damage := range map[string]func(){
		"cut":           func() { testkit.Must(t, os.Truncate(path, 100)) },
		"no steps":      func() { delete(good.Metadata, "steps"); testkit.Must(t, safetensors.Save(path, good)) },
		"no teachers":   func() { delete(good.Metadata, "teachers"); testkit.Must(t, safetensors.Save(path, good)) },
		"no moments":    func() { delete(good.ByName, "m"); testkit.Must(t, safetensors.Save(path, good)) },
		"no answer":     func() { delete(good.Metadata, "last_answer"); testkit.Must(t, safetensors.Save(path, good)) },
		"votes no text": func() { good.Metadata["last_answer"] = "%"; testkit.Must(t, safetensors.Save(path, good)) },
	} {
		good, err = safetensors.Load(path)
		testkit.Must(t, err)
		raw := testkit.Read(t, path)
		damage()
		forget(site)
		a, err := ask(site, voteRound("r", 2))
		if !errors.Is(err, question.ErrState) {
			t.Fatalf("%s: %v (%v), want the refusal %q", name, a, err, question.ErrState)
		}
		if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%s: error %v, want the file and what to do", name, err)
		}
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	votesOf(t, site, voteRound("r", 2))
}

// Small teachers are saved in every round. Large ones are saved at once and then only so
// often that saving takes a tenth of the time.
func TestLargeTeachersAreSavedNowAndThen(t *testing.T) {
	spec := teacherSpec{Models: 1, Features: 4000, Classes: 1, Hidden: 1500, Rate: 0.1}
	e, err := spec.ensemble()
	testkit.Must(t, err)
	now := time.Now()
	large := &runState{spec: spec, ensemble: e}
	if !large.due(now) {
		t.Error("a large state that was never saved is not due")
	}
	large.savedAt, large.saving = now, time.Second
	if large.due(now.Add(9 * time.Second)) {
		t.Error("a large state is due after 9 times as long as saving takes")
	}
	if !large.due(now.Add(11 * time.Second)) {
		t.Error("a large state is not due after 11 times as long as saving takes")
	}
	small := *large
	small.spec.Hidden = 4
	small.ensemble, err = small.spec.ensemble()
	testkit.Must(t, err)
	if !small.due(now) {
		t.Error("a small state is not due")
	}
}
