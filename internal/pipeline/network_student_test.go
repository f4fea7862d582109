package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// testStudent is a student of a small table, whose learner has a moving average or none.
func testStudent(t *testing.T, hidden int, average bool) *NetworkStudent {
	t.Helper()
	e := encode.New(partitiontest.Schema(t, testSchema))
	s, err := NewNetworkStudent("test", e, GeneratorSpec{Noise: 3, Hidden: hidden, Layers: 1, Classes: 2}, 0.01,
		rand.NewPCG(1, 1))
	testkit.Must(t, err)
	if average {
		s.Learner.KeepAverage(0.9)
	}
	return s
}

// stepping is a start that takes steps of its own size.
type stepping struct {
	rate float64
	err  error
}

func (s stepping) Begin(_ context.Context, notes *Learned, l *Learner, _ *rand.Rand, _ func() error) error {
	l.SetRate(s.rate)
	notes.Begun++
	return s.err
}
func (stepping) Hold(*Learner, *rand.Rand)                {}
func (stepping) Tensors(*safetensors.Set)                 {}
func (stepping) Restore(*safetensors.Set, *Learned) error { return nil }

// A start replaces the class counts, and leaves the learner's step size unchanged. A checkpoint does not store
// the step size, so a restored student would otherwise continue with another.
func TestBegin(t *testing.T) {
	nothing, over := func() error { return nil }, errors.New("over")
	oracle := &counter{answer: CountAnswer{Counts: []float64{3, 1}, Scale: 2, Paid: Paid{"counts", 3, 0}}}
	for _, want := range []error{nil, over} {
		s := testStudent(t, 2, false)
		s.StartWith(stepping{0.5, want})
		if err := s.Begin(t.Context(), oracle, nothing); !errors.Is(err, want) {
			t.Error(err)
		}
		if s.Learner.Rate() != 0.01 || s.Begun != 1 || oracle.asked != 0 || s.Counts != nil {
			t.Errorf("step size %v, notes %+v, %d times asked", s.Learner.Rate(), s.Learned, oracle.asked)
		}
	}
	s := testStudent(t, 2, false)
	for range 2 {
		if err := s.Begin(t.Context(), oracle, nothing); err != nil || oracle.asked != 1 || len(s.Counts) != 2 ||
			s.TeachersLeast != 3 {
			t.Errorf("%v, notes %+v, %d times asked", err, s.Learned, oracle.asked)
		}
	}
}

// Rounds are asked up to the given number. Errors are returned unchanged, and earlier learning stays.
func TestAsk(t *testing.T) {
	s, over, full := testStudent(t, 2, false), errors.New("over"), errors.New("full")
	oracle := &counter{answer: CountAnswer{Counts: []float64{3, 1}, Paid: Paid{"counts", 3, 0}}}
	var shown []Progress
	ask := func(rounds int, keep, refusal error) error {
		return s.Ask(t.Context(), oracle, rounds, func() error { return keep }, func(p Progress) {
			shown = append(shown, p)
		}, func(number uint64) (answered, queries int, err error) {
			if number == 3 && refusal != nil {
				return 0, 0, refusal
			}
			s.Done++
			s.Took(Paid{"round", 2, float64(number)})
			return 4, 5, nil
		})
	}
	if err := ask(4, nil, over); !errors.Is(err, over) || s.Rounds() != 2 || len(s.Receipts) != 3 || s.Spent != 2 {
		t.Errorf("%d rounds, notes %+v, %v", s.Rounds(), s.Learned, err)
	}
	if err := ask(4, full, nil); !errors.Is(err, full) || s.Rounds() != 4 {
		t.Errorf("%d rounds, %v", s.Rounds(), err)
	}
	if err := ask(4, nil, nil); err != nil || s.Rounds() != 4 || oracle.asked != 1 || s.TeachersLeast != 2 {
		t.Errorf("%d rounds, %d times asked for counts, %v", s.Rounds(), oracle.asked, err)
	}
	want := []Progress{{1, 4, 1, 4, 5}, {2, 4, 2, 4, 5}, {3, 4, 3, 4, 5}, {4, 4, 4, 4, 5}}
	testkit.Same(t, "progress", want, shown)
}

func save(path string, s *NetworkStudent) error {
	return s.SaveState(path, "run", func(c Checkpoint, _ *safetensors.Set) any { return c })
}

func restore(path, identity string, s *NetworkStudent) (bool, error) {
	var c Checkpoint
	return s.RestoreState(path, identity, AskAnew, &c, &c, func(*safetensors.Set) error { return nil })
}

// A restored student continues as if it had not stopped.
func TestCheckpoint(t *testing.T) {
	for _, average := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "student")
		s, again := testStudent(t, 6, average), testStudent(t, 6, average)
		if found, err := restore(path, "run", again); found || err != nil {
			t.Errorf("without a file: %v, %v", found, err)
		}
		s.Learned = Learned{Counts: []float64{3, 1}, Spent: 0.5, Receipts: []string{"a", "b"}, TeachersLeast: 4}
		s.Done = 1
		learn(s.Learner, 20, s.Rand)
		testkit.Must(t, save(path, s))
		if found, err := restore(path, "run", again); !found || err != nil {
			t.Fatalf("restored %v, %v", found, err)
		}
		if diff := cmp.Diff(s.Learned, again.Learned); diff != "" || again.Done != 1 {
			t.Errorf("%d rounds %s", again.Done, diff)
		}
		for range 2 {
			if !slices.Equal(weightsOf(s.Learner),
				weightsOf(again.Learner)) || s.Learner.Steps() != again.Learner.Steps() {
				t.Fatal("another learner came back")
			}
			learn(s.Learner, 20, s.Rand)
			learn(again.Learner, 20, again.Rand)
		}
	}
}

func TestCheckpointsThatDoNotFitAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "student")
	good := Learned{Counts: []float64{3, 1}, Receipts: []string{"a", "b"}}
	keep := func(average bool, learned Learned, done int) {
		t.Helper()
		s := testStudent(t, 6, average)
		s.Learned, s.Done = learned, done
		testkit.Must(t, save(path, s))
	}
	refused := func(name, identity string, into *NetworkStudent) {
		t.Helper()
		if found, err := restore(path, identity, into); found || !errors.Is(err, ErrCheckpoint) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	keep(true, good, 1)
	refused("another run", "other", testStudent(t, 6, true))
	refused("a wider generator", "run", testStudent(t, 7, true))
	other := testStudent(t, 6, true)
	other.name = "other"
	refused("another pipeline", "run", other)
	keep(false, good, 1)
	refused("no average", "run", testStudent(t, 6, true))
	for name, c := range map[string]struct {
		learned Learned
		done    int
	}{
		"more rounds than receipts": {good, 2}, "fewer rounds than receipts": {good, 0},
		"less than no rounds": {good, -1},
		"another class":       {Learned{Counts: []float64{3}, Receipts: []string{"a", "b"}}, 1},
	} {
		keep(true, c.learned, c.done)
		refused(name, "run", testStudent(t, 6, true))
	}
	// Before the class counts there is nothing to fit.
	keep(true, Learned{}, 0)
	if _, err := restore(path, "run", testStudent(t, 6, true)); err != nil {
		t.Error(err)
	}
	keep(true, good, 1)
	set, err := safetensors.Load(path)
	testkit.Must(t, err)
	state := set.Metadata["test"]
	set.Metadata["test"] = strings.Replace(state, `"random":"`, `"random":"%`, 1)
	testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
	refused("no random numbers", "run", testStudent(t, 6, true))
}

// A damaged checkpoint would continue with a generator that its releases did not make. It is refused with
// advice; damage that changes nothing, such as in the padding of the header, may pass.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "student")
	s := testStudent(t, 6, true)
	testkit.Must(t, save(path, s))
	content, want := testkit.Read(t, path), weightsOf(s.Learner)
	refuses := func(name string, content []byte, mayPass bool) {
		t.Helper()
		testkit.Must(t, os.WriteFile(path, content, 0o600))
		into := testStudent(t, 6, true)
		_, err := restore(path, "run", into)
		if err == nil && mayPass && slices.Equal(weightsOf(into.Learner), want) && *into.source == *s.source {
			return
		}
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "remove the file and run again") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, damaged := range map[string][]byte{
		"empty": nil, "cut off": content[:len(content)/2], "last byte": content[:len(content)-1],
		"zeros": make([]byte, len(content)), "other": []byte("nothing"),
	} {
		refuses(name, damaged, false)
	}
	for i := 0; i < len(content); i += 1 + len(content)/150 {
		flipped := slices.Clone(content)
		flipped[i] ^= 1 << (i % 8)
		refuses("a flipped bit", flipped, true)
	}
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	set, err := safetensors.Load(path)
	testkit.Must(t, err)
	set.Metadata["test"] = "{"
	testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
	if _, err := restore(path, "run", s); !errors.Is(err, ErrDamaged) {
		t.Errorf("no JSON: %v", err)
	}
}
