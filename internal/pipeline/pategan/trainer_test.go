package pategan

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The student learns where the real records lie, and nothing from coin flips.
func TestLearnsFromVotes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two students")
	}
	run := func(coin bool, labels int) *Trainer {
		o := DefaultOptions()
		o.Student.GeneratorSteps = 15
		tr, oracle := testTrainer(t, o, 1), newCrowd(t, o, 0.05)
		oracle.coin = coin
		testkit.Must(t, tr.Run(context.Background(), oracle, labels, nothing, func(pipeline.Progress) {}))
		return tr
	}
	tr := run(false, 640)
	if got, want := tr.Shares(), []float64{0.75, 0.25}; !slices.Equal(got, want) {
		t.Errorf("shares are %v, want %v", got, want)
	}
	for c, want := range [][]float64{{0.25, 0.5, 0.25, 0.6, 0.3, 0.1, 0.1}, {0.75, 0.5, 0.25, 0.1, 0.3, 0.6, 0.9}} {
		got := means(tr.Generator(), c)
		for j := range want {
			limit := 0.08
			if j > 1 {
				limit = 0.25
			}
			if math.Abs(got[j]-want[j]) > limit {
				t.Errorf("class %d, column %d: mean %.3f, want %.2f +- %v", c, j, got[j], want[j], limit)
			}
		}
	}
	coin := run(true, 128).Generator()
	if a, b := means(coin, 0)[0], means(coin, 1)[0]; math.Abs(a-b) > 0.3 {
		t.Errorf("coin flips moved the classes apart: %.3f and %.3f", a, b)
	}
}

// The first generator covers the public ranges.
func TestBeginsUniform(t *testing.T) {
	o := DefaultOptions()
	o.Student.GeneratorSteps = 30
	tr := testTrainer(t, o, 3)
	for c := range 2 {
		m := means(tr.Generator(), c)
		want := []float64{0.5, 0.5, 0.5, 1. / 3, 1. / 3, 1. / 3, 0.5}
		for j := range want {
			if math.Abs(m[j]-want[j]) > 0.12 {
				t.Errorf("class %d: column %d starts with mean %.3f, want about %.3f", c, j, m[j], want[j])
			}
		}
	}
}

// A round of queries asks for all classes alike, with the last one shorter.
func TestRounds(t *testing.T) {
	tr, oracle := testTrainer(t, smallOptions(), 1), newCrowd(t, smallOptions(), 0)
	var seen []int
	testkit.Must(t, tr.Run(context.Background(), oracle, 40, nothing, func(p pipeline.Progress) {
		if p.Rounds != 3 || p.EpsilonSpent != float64(p.Round) {
			t.Errorf("progress %+v, want 3 rounds and what the oracle said", p)
		}
		seen = append(seen, p.Queries)
	}))
	if !slices.Equal(seen, []int{16, 16, 8}) || tr.Rounds() != 3 {
		t.Errorf("asked %v in %d rounds, want 16, 16 and 8", seen, tr.Rounds())
	}
	for _, q := range oracle.asked {
		if len(q.Training) != 8*q.Width || len(q.TrainingClasses) != 8 {
			t.Errorf("%d training values and %d classes", len(q.Training), len(q.TrainingClasses))
		}
		ones := 0
		for _, c := range q.QueryClasses {
			ones += c
		}
		if 2*ones != len(q.QueryClasses) {
			t.Errorf("%d of %d queries are of class 1", ones, len(q.QueryClasses))
		}
		for _, v := range q.Queries {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("query value %v is not in [0, 1]", v)
			}
		}
	}
}

// A student that was stopped after any step goes on as if it had not been, down
// to the last bit, and asks no round anew in other words.
func TestResumeGivesTheSameBits(t *testing.T) {
	const labels = 64
	stop := errors.New("stop")
	straight := testTrainer(t, smallOptions(), 1)
	testkit.Must(t, straight.Run(context.Background(), newCrowd(t, smallOptions(), 0.05), labels, nothing,
		func(pipeline.Progress) {}))
	path := filepath.Join(t.TempDir(), "student.ckpt")
	oracle := newCrowd(t, smallOptions(), 0.05)
	var tr *Trainer
	for starts := 1; ; starts++ {
		tr = testTrainer(t, smallOptions(), 1)
		if found, err := tr.Restore(path, "run"); err != nil || found != (starts > 1) {
			t.Fatalf("start %d: restored %v, %v", starts, found, err)
		}
		err := tr.Run(context.Background(), oracle, labels, func() error {
			if err := tr.Save(path, "run"); err != nil {
				return err
			}
			if tr.Rounds() < labels/16 && starts <= tr.Rounds()+1 {
				return stop
			}
			return nil
		}, func(pipeline.Progress) {})
		if err == nil {
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	for i, p := range straight.Generator().Net.Params() {
		if !slices.Equal(p.Value, tr.Generator().Net.Params()[i].Value) {
			t.Fatalf("parameter %s differs after the restarts", p.Name)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "student.ckpt")
	tr := testTrainer(t, smallOptions(), 1)
	testkit.Must(t, tr.Run(context.Background(), newCrowd(t, smallOptions(), 0), 16, nothing,
		func(pipeline.Progress) {}))
	testkit.Must(t, tr.Save(path, "run a"))
	if _, err := testTrainer(t, smallOptions(), 1).Restore(path, "run b"); !errors.Is(err, pipeline.ErrCheckpoint) {
		t.Errorf("another run's checkpoint: %v", err)
	}
	wider := smallOptions()
	wider.Student.Hidden = 17
	if _, err := testTrainer(t, wider, 1).Restore(path, "run a"); !errors.Is(err, pipeline.ErrCheckpoint) {
		t.Errorf("a checkpoint of another shape: %v", err)
	}
	tr.rounds[0].classes[0] = 2
	testkit.Must(t, tr.Save(path, "run a"))
	if _, err := testTrainer(t, smallOptions(), 1).Restore(path, "run a"); !errors.Is(err, pipeline.ErrCheckpoint) {
		t.Errorf("a checkpoint with a class that there is not: %v", err)
	}
}

type badOracle struct {
	*crowd
	counts []float64
	spoil  func(*pipeline.VoteAnswer)
}

func (o *badOracle) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	return &pipeline.CountAnswer{Counts: o.counts, Paid: pipeline.Paid{Receipt: "counts"}}, nil
}

func (o *badOracle) Votes(ctx context.Context, round uint64, q *pipeline.VoteQuestion) (*pipeline.VoteAnswer, error) {
	a, err := o.crowd.Votes(ctx, round, q)
	o.spoil(a)
	return a, err
}

func TestRefusesBadAnswers(t *testing.T) {
	for name, o := range map[string]*badOracle{
		"too few counts": {counts: []float64{1}},
		"too few shares": {counts: []float64{1, 1}, spoil: func(a *pipeline.VoteAnswer) { a.Share = a.Share[1:] }},
		"too few marks": {counts: []float64{1, 1}, spoil: func(a *pipeline.VoteAnswer) {
			a.Answered = a.Answered[1:]
		}},
		"not a number": {counts: []float64{1, 1}, spoil: func(a *pipeline.VoteAnswer) {
			a.Share[0] = float32(math.NaN())
		}},
	} {
		o.crowd = newCrowd(t, smallOptions(), 0)
		if err := testTrainer(t, smallOptions(), 1).Run(context.Background(), o, 32, nothing,
			func(pipeline.Progress) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A query without an answer teaches nothing, whatever stands in its share.
func TestUnansweredQueriesTeachNothing(t *testing.T) {
	run := func(share float32) *Trainer {
		tr := testTrainer(t, smallOptions(), 1)
		o := &badOracle{counts: []float64{1, 1}, crowd: newCrowd(t, smallOptions(), 0)}
		o.spoil = func(a *pipeline.VoteAnswer) { a.Answered[3], a.Share[3] = false, share }
		testkit.Must(t, tr.Run(context.Background(), o, 16, nothing, func(p pipeline.Progress) {
			if p.Answered != 15 {
				t.Errorf("%d answered, want 15", p.Answered)
			}
		}))
		return tr
	}
	a, b := run(0).Generator().Net.Params(), run(1).Generator().Net.Params()
	for i := range a {
		if !slices.Equal(a[i].Value, b[i].Value) {
			t.Fatalf("parameter %s depends on a query that was not answered", a[i].Name)
		}
	}
}
