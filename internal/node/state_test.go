package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// weights returns a copy of all that training changes.
func weights(n *Node) []float32 {
	var all []float32
	for _, p := range n.current.ensemble.State() {
		all = append(all, p.Value...)
	}
	return all
}

// sameState compares the teachers of two nodes.
func sameState(t *testing.T, what string, a, b *Node) {
	t.Helper()
	if !slices.Equal(weights(a), weights(b)) || a.current.ensemble.Steps() != b.current.ensemble.Steps() {
		t.Errorf("%s: the teachers differ (%d and %d steps)", what, a.current.ensemble.Steps(), b.current.ensemble.Steps())
	}
	if a.current.rounds != b.current.rounds || a.current.lastRound != b.current.lastRound {
		t.Errorf("%s: %d rounds up to %d, and %d up to %d", what, a.current.rounds, a.current.lastRound, b.current.rounds, b.current.lastRound)
	}
}

// A node that was killed after any answer goes on as if it had not been.
func TestANodeThatStartsAgainGoesOnWhereItWas(t *testing.T) {
	table := smallTable(t, 80, 1)
	c := smallConfig(t, 4)
	whole := start(t, c, table)
	killed := start(t, copyState(t, c), table)
	for number := range uint64(4) {
		r := voteRound("r", number)
		want, got := votesOf(t, whole, r), votesOf(t, killed, r)
		if !bytes.Equal(want, got) {
			t.Fatalf("round %d: votes %x, without the crash %x", number, got, want)
		}
		killed = start(t, killed.cfg, table)
		if again := votesOf(t, killed, r); !bytes.Equal(again, want) {
			t.Fatalf("round %d asked again after a start: votes %x, before %x", number, again, want)
		}
		sameState(t, "after a start", whole, killed)
	}
}

// copyState gives a configuration a state folder of its own with the key and
// the manifest of the first.
func copyState(t *testing.T, c Config) Config {
	t.Helper()
	out := c
	out.State = filepath.Join(t.TempDir(), "state")
	testkit.Must(t, os.MkdirAll(out.State, 0o700))
	for _, name := range []string{"partition.key", "manifest.json"} {
		raw, err := os.ReadFile(filepath.Join(c.State, name))
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(out.State, name), raw, 0o600))
	}
	return out
}

// A crash while the state is written leaves the one before: the round is
// answered again from there, with the same votes.
func TestARoundCutShortIsAnsweredTheSame(t *testing.T) {
	n := smallNode(t, 4)
	votesOf(t, n, voteRound("r", 1))
	path := statePath(n.cfg.State, "r")
	before, err := os.ReadFile(path)
	testkit.Must(t, err)
	want := votesOf(t, n, voteRound("r", 2))
	testkit.Must(t, os.WriteFile(path, before, 0o600))
	n.current = nil // killed after training, before its state was saved
	if got := votesOf(t, n, voteRound("r", 2)); !bytes.Equal(got, want) {
		t.Errorf("votes %x, before the crash %x", got, want)
	}
}

// No answer leaves that is not saved: the disk is what counts when the same
// round comes again. The path of the file stays at the site.
func TestVotesThatCannotBeKeptDoNotLeave(t *testing.T) {
	n := smallNode(t, 4)
	want := votesOf(t, start(t, copyState(t, n.cfg), smallTable(t, 80, 1)), voteRound("r", 1))
	away := n.cfg.State + "-away"
	testkit.Must(t, os.Rename(n.cfg.State, away))
	for range 2 {
		m := ask(t, n, voteRound("r", 1))
		if m.GetRefusal() == nil || m.GetRefusal().Reason != errState.Error() {
			t.Fatalf("without a state folder: %v, want the refusal %q", m, errState)
		}
	}
	testkit.Must(t, os.Rename(away, n.cfg.State))
	if got := votesOf(t, n, voteRound("r", 1)); !bytes.Equal(got, want) {
		t.Errorf("votes %x once the folder is back, want %x: the teachers were trained more than once", got, want)
	}
}

func TestDamagedStateIsRefusedWithoutDetails(t *testing.T) {
	n := smallNode(t, 4)
	votesOf(t, n, voteRound("r", 1))
	path := statePath(n.cfg.State, "r")
	good, err := nn.LoadTensors(path)
	testkit.Must(t, err)
	for name, damage := range map[string]func(){
		"cut":           func() { testkit.Must(t, os.Truncate(path, 100)) },
		"no steps":      func() { delete(good.Metadata, "steps"); testkit.Must(t, nn.SaveTensors(path, good)) },
		"no teachers":   func() { delete(good.Metadata, "teachers"); testkit.Must(t, nn.SaveTensors(path, good)) },
		"no moments":    func() { delete(good.ByName, "m"); testkit.Must(t, nn.SaveTensors(path, good)) },
		"no answer":     func() { delete(good.Metadata, "last_answer"); testkit.Must(t, nn.SaveTensors(path, good)) },
		"votes no text": func() { good.Metadata["last_answer"] = "%"; testkit.Must(t, nn.SaveTensors(path, good)) },
	} {
		good, err = nn.LoadTensors(path)
		testkit.Must(t, err)
		raw, err := os.ReadFile(path)
		testkit.Must(t, err)
		damage()
		n.current = nil
		if m := ask(t, n, voteRound("r", 2)); m.GetRefusal() == nil || m.GetRefusal().Reason != errState.Error() {
			t.Errorf("%s: %v, want the refusal %q", name, m, errState)
		}
		if _, err := loadState(path, freshState(t, n, voteRound("r", 2).GetVote())); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the file") {
			t.Errorf("%s: error %v, want the file and what to do", name, err)
		}
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	votesOf(t, n, voteRound("r", 2))
}

func TestStateIsForTheOwnerOnly(t *testing.T) {
	n := smallNode(t, 2)
	votesOf(t, n, voteRound("r", 1))
	entries, err := os.ReadDir(n.cfg.State)
	testkit.Must(t, err)
	if len(entries) != 3 {
		t.Errorf("the state folder holds %v, want the key, the manifest and one run", entries)
	}
	for _, e := range entries {
		info, err := e.Info()
		testkit.Must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode().Perm())
		}
	}
}

// lastVotes are the packed votes of the last answer.
func (s *runState) lastVotes(t testing.TB) []byte {
	t.Helper()
	answer, err := s.answerAgain()
	testkit.Must(t, err)
	return answer.GetVotes().GetPacked()
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
