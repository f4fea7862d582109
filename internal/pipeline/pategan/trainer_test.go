package pategan

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The student learns the location of real records, and nothing from coin flips.
func TestLearnsFromVotes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two students")
	}
	learn := func(coin bool, labels int) *Trainer {
		o := DefaultOptions()
		o.Student.GeneratorSteps = 15
		tr, oracle := testTrainer(t, o, 1), newCrowd(t, o, 0.05)
		oracle.coin = coin
		run(t, tr, oracle, labels)
		return tr
	}
	tr := learn(false, 640)
	if got, want := tr.Shares(), []float64{0.75, 0.25}; !slices.Equal(got, want) {
		t.Errorf("shares are %v, want %v", got, want)
	}
	for c, want := range [][]float64{{0.25, 0.5, 0.25, 0.6, 0.3, 0.1, 0.1}, {0.75, 0.5, 0.25, 0.1, 0.3, 0.6, 0.9}} {
		got := studenttest.Means(tr.Generator(), c)
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
	coin := learn(true, 128).Generator()
	if a, b := studenttest.Means(coin, 0)[0], studenttest.Means(coin, 1)[0]; math.Abs(a-b) > 0.3 {
		t.Errorf("coin flips moved the classes apart: %.3f and %.3f", a, b)
	}
}

// The first generator covers the public ranges.
func TestBeginsUniform(t *testing.T) {
	o := DefaultOptions()
	o.Student.GeneratorSteps = 30
	tr := testTrainer(t, o, 3)
	for c := range 2 {
		m := studenttest.Means(tr.Generator(), c)
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
	testkit.Must(t, tr.Run(t.Context(), oracle, 40, studenttest.Nothing, func(p pipeline.Progress) {
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
		for _, c := range q.Classes {
			ones += c
		}
		if 2*ones != len(q.Classes) {
			t.Errorf("%d of %d queries are of class 1", ones, len(q.Classes))
		}
		for _, v := range q.Records {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("query value %v is not in [0, 1]", v)
			}
		}
	}
}

func TestResumeGivesTheSameBits(t *testing.T) {
	straight, resumed := studenttest.Resumes(t, func() studenttest.Case[*pipeline.TeacherQuestion] {
		c, _ := ofVotes(t, smallOptions(), 64)
		return c
	})
	testkit.Same(t, "", straight.(*Trainer).kept, resumed.(*Trainer).kept, cmp.AllowUnexported(kept{}),
		cmpopts.EquateEmpty())
}

func TestAStudentWithAStart(t *testing.T) {
	o := smallOptions()
	o.Student.GeneratorSteps = 5
	studenttest.Starts(t, func() studenttest.Case[*pipeline.TeacherQuestion] {
		c, oracle := ofVotes(t, o, 48)
		c.Records = studenttest.OfTeachers(t, studenttest.Table(t), oracle.real)
		return c
	}, 3, 3*o.Student.GeneratorSteps, o.Student.GeneratorSteps)
}

func TestCheckpointsAreTheirRuns(t *testing.T) {
	o := smallOptions()
	others := map[string]studenttest.Trainer{}
	for name, section := range map[string]string{
		"a wider generator's": "student: {hidden: 17}", "with fewer pairs": "student: {keep: 1}",
	} {
		others[name] = testTrainer(t, studenttest.With(t, o, section), 1)
	}
	c, _ := ofVotes(t, o, 48)
	c.RefusesCheckpoints(t, c.Stopped(t, 2), "pategan", "remove the file and run again", others, map[string][2]string{
		"a class that there is not": {`"classes":[[0,`, `"classes":[[2,`},
		"a round too many":          {`"noise":[`, `"noise":[0.1,`},
	})
}

// The least number of teachers is over all rounds.
func TestTheLeastNumberOfTeachersIsKept(t *testing.T) {
	for want, teachers := range map[int]func(uint64) int{
		200: func(r uint64) int { return map[uint64]int{1: 200}[r] + 200 }, // a node was away
		250: func(r uint64) int { return 400 - map[uint64]int{2: 150}[r] },
		300: func(r uint64) int { return 400 - map[uint64]int{0: 100}[r] }, // for the class counts
	} {
		tr, oracle := testTrainer(t, smallOptions(), 1), newCrowd(t, smallOptions(), 0.05)
		oracle.teachers = teachers
		run(t, tr, oracle, 48)
		if tr.TeachersLeast != want {
			t.Errorf("%d teachers, want %d", tr.TeachersLeast, want)
		}
	}
}

func TestRefusesBadAnswers(t *testing.T) {
	for name, spoil := range map[string]func(*pipeline.VoteAnswer){
		"too few counts": nil,
		"too few shares": func(a *pipeline.VoteAnswer) { a.Share = a.Share[1:] },
		"too few marks":  func(a *pipeline.VoteAnswer) { a.Answered = a.Answered[1:] },
		"not a number":   func(a *pipeline.VoteAnswer) { a.Share[0] = float32(math.NaN()) },
	} {
		oracle := newCrowd(t, smallOptions(), 0)
		if oracle.spoil = spoil; spoil == nil {
			oracle.counts = oracle.counts[1:]
		}
		if err := testTrainer(t, smallOptions(), 1).Run(t.Context(), oracle, 32, studenttest.Nothing,
			studenttest.Unseen); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A query without an answer teaches nothing, whatever its share is.
func TestUnansweredQueriesTeachNothing(t *testing.T) {
	learn := func(share float32) *Trainer {
		tr, o := testTrainer(t, smallOptions(), 1), newCrowd(t, smallOptions(), 0)
		o.spoil = func(a *pipeline.VoteAnswer) { a.Answered[3], a.Share[3] = false, share }
		testkit.Must(t, tr.Run(t.Context(), o, 16, studenttest.Nothing, func(p pipeline.Progress) {
			if p.Answered != 15 {
				t.Errorf("%d answered, want 15", p.Answered)
			}
		}))
		return tr
	}
	a, b := learn(0).Generator(), learn(1).Generator()
	if !slices.Equal(studenttest.Weights(a), studenttest.Weights(b)) {
		t.Error("the generator depends on a query that was not answered")
	}
}
