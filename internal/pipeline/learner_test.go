package pipeline

import (
	"context"
	"errors"
	"math"
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

// testLearner is a learner of a small table, with a moving average or without.
func testLearner(t *testing.T, hidden int, average bool) *Learner {
	t.Helper()
	s := partitiontest.Schema(t, testSchema)
	g, err := NewGenerator(encode.New(s), GeneratorSpec{Noise: 3, Hidden: hidden, Layers: 1, Classes: 2},
		rand.New(rand.NewPCG(1, 1)))
	testkit.Must(t, err)
	l := NewLearner(g, 0.01)
	if average {
		l.KeepAverage(0.9)
	}
	return l
}

// learn takes steps that make all features larger.
func learn(l *Learner, steps int, rng *rand.Rand) {
	classes := Balanced(8, 2)
	x, grad := make([]float32, 8*l.Generator.Width()), make([]float32, 8*l.Generator.Width())
	for range steps {
		l.Generator.Sample(x, classes, rng)
		for i := range grad {
			grad[i] = -1
		}
		l.Step(grad, x)
	}
}

func weightsOf(l *Learner) (all []float32) {
	for _, part := range l.parts() {
		for _, p := range part.params {
			all = append(all, p.Value...)
		}
	}
	return all
}

// A learner moves against the gradient; its average follows and is the generator itself
// where none is kept.
func TestLearner(t *testing.T) {
	mean := func(g *Generator) (sum float64) {
		x := make([]float32, 2000*g.Width())
		g.Sample(x, Balanced(2000, 2), rand.New(rand.NewPCG(3, 3)))
		for _, v := range x {
			sum += float64(v) / float64(len(x))
		}
		return sum
	}
	for _, average := range []bool{false, true} {
		l := testLearner(t, 6, average)
		before := mean(l.Generator)
		learn(l, 25, rand.New(rand.NewPCG(1, 4)))
		now, kept := mean(l.Generator), mean(l.Averaged())
		if now < before+0.01 {
			t.Errorf("average %v: the mean went from %v to %v", average, before, now)
		}
		if average != (kept != now) || kept < before {
			t.Errorf("average %v: the average's mean is %v, the generator's %v", average, kept, now)
		}
		if steps := l.Steps(); steps[0] != 25 || steps[1] != map[bool]int{true: 25}[average] {
			t.Errorf("average %v: %v steps", average, steps)
		}
	}
}

func TestDiverged(t *testing.T) {
	l := testLearner(t, 6, true)
	if l.Diverged() {
		t.Error("an untrained generator has diverged")
	}
	params := l.Generator.Net.Params()
	last := params[len(params)-1].Value
	last[len(last)-1] = float32(math.NaN())
	if !l.Diverged() {
		t.Error("a weight that is no number was not seen")
	}
}

// The units of a generator are those of many of its records.
func TestLearnerUnits(t *testing.T) {
	l := testLearner(t, 6, false)
	units, err := l.Units(2, []int{0}, rand.New(rand.NewPCG(1, 5)))
	testkit.Must(t, err)
	const n = 2000
	w, classes := l.Generator.Width(), slices.Repeat([]int{1}, n)
	x := make([]float32, n*w)
	l.Generator.Sample(x, classes, rand.New(rand.NewPCG(2, 5)))
	if units.Width() != w+1 {
		t.Fatalf("%d values of %d features with one square", units.Width(), w)
	}
	z := units.All(x, classes)
	for j := range w {
		var mean float64
		for i := range n {
			mean += float64(z[i*(w+1)+j]) / n
		}
		if math.Abs(mean) > 0.25 { // of 1,024 and 2,000 records, seven standard deviations
			t.Errorf("feature %d has mean %v in its units", j, mean)
		}
	}
	if _, err := l.Units(2, []int{w}, rand.New(rand.NewPCG(1, 5))); err == nil {
		t.Error("a square of no feature was taken")
	}
}

func TestBalanced(t *testing.T) {
	for _, c := range []struct {
		n, classes int
		want       []int
	}{{5, 2, []int{0, 1, 0, 1, 0}}, {2, 3, []int{0, 1}}, {0, 2, []int{}}, {3, 1, []int{0, 0, 0}}} {
		if got := Balanced(c.n, c.classes); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d classes: %v, want %v", c.n, c.classes, got, c.want)
		}
	}
}

type counter struct {
	answer CountAnswer
	err    error
	asked  int
}

func (c *counter) ClassCounts(_ context.Context, round uint64, _ int) (*CountAnswer, error) {
	c.asked++
	if round != 0 {
		return nil, errors.New("class counts are asked for in round 0")
	}
	return &c.answer, c.err
}

// Class counts are asked for once; releases leave their receipts, what is spent, and the
// least number of teachers.
func TestLearned(t *testing.T) {
	var l Learned
	refused := errors.New("refused")
	if err := l.AskClassCounts(context.Background(), &counter{err: refused}, 2); !errors.Is(err, refused) ||
		l.Counts != nil {
		t.Errorf("a refusal: %v, counts %v", err, l.Counts)
	}
	for _, counts := range [][]float64{nil, {1}, {1, 2, 3}} {
		if err := l.AskClassCounts(context.Background(), &counter{answer: CountAnswer{Counts: counts}},
			2); err == nil || l.Counts != nil || len(l.Receipts) != 0 {
			t.Errorf("counts %v: %v, %+v", counts, err, l)
		}
	}
	oracle := &counter{answer: CountAnswer{Counts: []float64{30, 10}, Receipt: "a", Teachers: 8}}
	for range 2 {
		if err := l.AskClassCounts(context.Background(), oracle, 2); err != nil || oracle.asked != 1 {
			t.Fatalf("asked %d times, %v", oracle.asked, err)
		}
	}
	l.Took("b", 9, 0.25)
	l.Took("c", 7, 0.5)
	l.Took("d", 8, 0.75)
	want := Learned{Counts: []float64{30, 10}, Spent: 0.75, Receipts: []string{"a", "b", "c", "d"}, TeachersLeast: 7}
	testkit.Same(t, "", want, *l.Notes())
	if !slices.Equal(l.Shares(), []float64{0.75, 0.25}) {
		t.Errorf("shares %v", l.Shares())
	}
	for rounds, fits := range map[int]bool{2: false, 3: true, 4: false} {
		if l.fits(rounds, 2) != fits || l.fits(rounds, 3) {
			t.Errorf("notes of %d rounds: %v, of three classes: %v", rounds, l.fits(rounds, 2), l.fits(rounds, 3))
		}
	}
}

// saveTo and restoreFrom keep a learner as a pipeline named test does.
func saveTo(t *testing.T, path string, source *rand.PCG, l *Learner, learned Learned, done int) {
	t.Helper()
	c, set, err := NewCheckpoint("run", source, l, nil, learned, done)
	testkit.Must(t, err)
	testkit.Must(t, SaveCheckpoint(path, "test", c, set))
}

func restoreFrom(path, identity string, source *rand.PCG, l *Learner) (c Checkpoint, err error) {
	set, err := LoadCheckpoint(path, "test", AskAnew, &c)
	if err != nil {
		return c, err
	}
	return c, c.Restore(path, identity, set, source, l, nil, 2)
}

// What was saved goes on as it would have without.
func TestCheckpoint(t *testing.T) {
	for _, average := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "student")
		var none Checkpoint
		if set, err := LoadCheckpoint(path, "test", AskAnew, &none); set != nil || err != nil {
			t.Errorf("without a file: %v, %v", set, err)
		}
		source := rand.NewPCG(5, 6)
		l, learned := testLearner(t, 6, average),
			Learned{Counts: []float64{3, 1}, Spent: 0.5, Receipts: []string{"a", "b"}, TeachersLeast: 4}
		learn(l, 20, rand.New(source))
		saveTo(t, path, source, l, learned, 1)
		again, source2 := testLearner(t, 6, average), rand.NewPCG(9, 9)
		c, err := restoreFrom(path, "run", source2, again)
		testkit.Must(t, err)
		if diff := cmp.Diff(learned, c.Learned); diff != "" || c.Done != 1 {
			t.Errorf("%d rounds %s", c.Done, diff)
		}
		for range 2 {
			if !slices.Equal(weightsOf(l), weightsOf(again)) || l.Steps() != again.Steps() {
				t.Fatal("another learner came back")
			}
			learn(l, 20, rand.New(source))
			learn(again, 20, rand.New(source2))
		}
	}
}

func TestCheckpointsThatDoNotFitAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "student")
	l, source := testLearner(t, 6, true), rand.NewPCG(5, 6)
	good := Learned{Counts: []float64{3, 1}, Receipts: []string{"a", "b"}}
	refused := func(name, identity string, into *Learner) {
		t.Helper()
		if _, err := restoreFrom(path, identity, rand.NewPCG(1, 1), into); !errors.Is(err, ErrCheckpoint) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	saveTo(t, path, source, l, good, 1)
	refused("another run", "other", testLearner(t, 6, true))
	refused("a wider generator", "run", testLearner(t, 7, true))
	saveTo(t, path, source, testLearner(t, 6, false), good, 1)
	refused("no average", "run", testLearner(t, 6, true))
	for name, c := range map[string]struct {
		learned Learned
		done    int
	}{
		"more rounds than receipts": {good, 2}, "fewer rounds than receipts": {good, 0},
		"less than no rounds": {good, -1},
		"another class":       {Learned{Counts: []float64{3}, Receipts: []string{"a", "b"}}, 1},
	} {
		saveTo(t, path, source, l, c.learned, c.done)
		refused(name, "run", testLearner(t, 6, true))
	}
	// Before the class counts there is nothing to fit.
	saveTo(t, path, source, l, Learned{}, 0)
	if _, err := restoreFrom(path, "run", rand.NewPCG(1, 1), testLearner(t, 6, true)); err != nil {
		t.Error(err)
	}

	saveTo(t, path, source, l, good, 1)
	set, err := safetensors.Load(path)
	testkit.Must(t, err)
	set.Metadata["test"] = "{"
	testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
	if _, err := restoreFrom(path, "run", source, l); !errors.Is(err, ErrDamaged) {
		t.Errorf("no JSON: %v", err)
	}
	delete(set.Metadata, "test")
	testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
	refused("another pipeline", "run", l)
	testkit.Must(t, os.WriteFile(path, []byte("nothing"), 0o600))
	if _, err := restoreFrom(path, "run", source, l); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "remove the file and run again") {
		t.Errorf("no file of tensors: %v", err)
	}
}
