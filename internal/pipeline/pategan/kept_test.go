package pategan

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func mustPairs(t testing.TB, tr *Trainer) []pipeline.Pair {
	t.Helper()
	pairs, err := tr.Pairs()
	testkit.Must(t, err)
	return pairs
}

// Pairs are the generator's average when a round was asked, and the round's change. The last ones are stored,
// also over restarts.
func TestPairsOfTheLastRoundsAreKept(t *testing.T) {
	o := smallOptions()
	o.Student.Keep = 3
	tr := testTrainer(t, o, 1)
	var before [][]tensor.Param
	path := filepath.Join(t.TempDir(), "student.ckpt")
	const rounds = 5
	err := tr.Run(context.Background(), newCrowd(t, o, 0.05), rounds*o.Queries, func() error {
		if tr.pending != nil { // a round is about to be asked
			before = append(before, pipeline.CopyParams(tr.Generator().Net.Params()))
		}
		return tr.Save(path, "run")
	}, studenttest.Unseen)
	testkit.Must(t, err)
	pairs := mustPairs(t, tr)
	if len(pairs) != 3 {
		t.Fatalf("%d pairs, want 3", len(pairs))
	}
	again := testTrainer(t, o, 2)
	if _, err := again.Restore(path, "run"); err != nil {
		t.Fatal(err)
	}
	testkit.Same(t, "", tr.kept, again.kept, cmp.AllowUnexported(kept{}), cmpopts.EquateEmpty())
	restored, classes := mustPairs(t, again), pipeline.Balanced(100, 2)
	x := make([]float32, len(classes)*pairs[0].Generator.Width())
	for i, p := range pairs {
		if want := rounds - 2 + i; p.Step != want || restored[i].Step != want {
			t.Errorf("pair %d is of round %d, want %d", i, p.Step, want)
		}
		for k, param := range p.Generator.Net.Params() {
			if !slices.Equal(param.Value, before[p.Step-1][k].Value) {
				t.Errorf("pair %d: its generator is not that of before round %d", i, p.Step)
				break
			}
		}
		p.Generator.Sample(x, classes, rand.New(rand.NewPCG(3, 3)))
		scores := p.Probabilities(nil, x, classes)
		if !slices.Equal(scores, restored[i].Probabilities(nil, x, classes)) {
			t.Errorf("pair %d scores otherwise after a restart", i)
		}
		for _, s := range scores {
			if !(s >= 0 && s <= 1) {
				t.Fatalf("pair %d gives a probability of %v", i, s)
			}
		}
	}
	// A checkpoint with another number of pairs than the options say belongs to another run.
	o.Student.Keep = 2
	if _, err := testTrainer(t, o, 1).Restore(path, "run"); err == nil {
		t.Error("a checkpoint of another number of pairs was restored")
	}
}

// A pair's score is the fitted change, up to rounding to float32.
func TestPairsScoreAsTheChange(t *testing.T) {
	tr, rng := testTrainer(t, smallOptions(), 1), rand.New(rand.NewPCG(4, 4))
	units, err := tr.Learner.Units(2, tr.numbers, rng)
	testkit.Must(t, err)
	d := newChange(units, 2, tr.student())
	for i := range d.weights {
		d.weights[i] = rng.NormFloat64()
	}
	tr.Done = 1
	tr.keepPair(d)
	p := mustPairs(t, tr)[0]
	classes := pipeline.Balanced(500, 2)
	x := make([]float32, len(classes)*p.Generator.Width())
	tr.Learner.Generator.Sample(x, classes, rng)
	want := d.of(x, classes)
	for i, got := range p.Discriminator.Scores(x, classes) {
		if math.Abs(float64(got-want[i])) > 1e-4 {
			t.Fatalf("record %d of class %d scores %v, the change is %v", i, classes[i], got, want[i])
		}
	}
}

func TestNoPairsAreKept(t *testing.T) {
	o := smallOptions()
	o.Student.Keep = 0
	tr := testTrainer(t, o, 1)
	run(t, tr, newCrowd(t, o, 0.05), o.Queries)
	if pairs := mustPairs(t, tr); len(pairs) != 0 {
		t.Errorf("%d pairs", len(pairs))
	}
}
