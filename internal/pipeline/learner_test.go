package pipeline

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// testLearner is a learner of a small table, with a moving average or without.
func testLearner(t *testing.T, hidden int, average bool) *Learner {
	return testStudent(t, hidden, average).Learner
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

// Class counts are asked for once. Releases leave their receipts, the spent budget, and the least number of
// teachers.
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
	oracle := &counter{answer: CountAnswer{Counts: []float64{30, 10}, Paid: Paid{"a", 8, 0}}}
	for range 2 {
		if err := l.AskClassCounts(context.Background(), oracle, 2); err != nil || oracle.asked != 1 {
			t.Fatalf("asked %d times, %v", oracle.asked, err)
		}
	}
	l.Took(Paid{"b", 9, 0.25})
	l.Took(Paid{"c", 7, 0.5})
	l.Took(Paid{"d", 8, 0.75})
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
