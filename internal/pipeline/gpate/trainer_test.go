package gpate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The student learns the location of a table's records from every kind of answer, and nothing from coin flips.
func TestLearnsATable(t *testing.T) {
	if testing.Short() {
		t.Skip("trains students")
	}
	base := smallOptions()
	base.Rounds, base.Records, base.Bins, base.Clip = 6, 48, 10, 0.4
	base.Teacher.Training, base.Teacher.Steps = 64, 10
	base.Student.Noise, base.Student.GeneratorSteps, base.Student.GeneratorRate = 8, 15, 8e-3
	e := studenttest.Table(t)
	learn := func(o Options, coin bool, noise float64) *Trainer {
		oracle := newCrowd(t, o, e, 100, studenttest.TableRecord)
		oracle.coin, oracle.noise = coin, noise
		tr := mustNew(t, o, e, 1)
		run(t, tr, oracle, o.Rounds)
		return tr
	}
	flips := learn(base, true, 0.01).Generator()
	for _, c := range []struct {
		answers Answers
		noise   float64
	}{{Sum, 0.01}, {Histogram, 5}, {Winner, 5}} {
		o := base
		if o.Answers = c.answers; c.answers != Sum {
			o.Directions, o.Mechanism = 7, "gnmax"
		}
		tr := learn(o, false, c.noise)
		if got := tr.Shares(); !slices.Equal(got, []float64{0.75, 0.25}) {
			t.Errorf("shares are %v", got)
		}
		for class, want := range []float64{0.25, 0.75} {
			got, coin := studenttest.Means(tr.Generator(), class), studenttest.Means(flips, class)
			t.Logf("%s, class %d: %.2f, coin flips %.2f", c.answers, class, got, coin)
			if math.Abs(got[0]-want) > 0.12 {
				t.Errorf("%s, class %d: the first column has mean %.3f, want %v", c.answers, class, got[0], want)
			}
			if d := got[6] - float64(class); math.Abs(d) > 0.35 || math.Abs(d) > math.Abs(coin[6]-float64(class)) {
				t.Errorf("%s, class %d: the flag has mean %.3f, of coin flips %.3f", c.answers, class, got[6], coin[6])
			}
			if math.Abs(coin[0]-want) < math.Abs(got[0]-want) {
				t.Errorf("%s, class %d: coin flips have mean %.3f, the votes %.3f", c.answers, class, coin[0], got[0])
			}
		}
	}
}

// The student learns to distinguish images of two classes.
func TestLearnsImages(t *testing.T) {
	if testing.Short() {
		t.Skip("trains students")
	}
	e := studenttest.Images(t, 8, 8, 1)
	o := imageOptions()
	o.Rounds, o.Records, o.Teacher.Training, o.Teacher.Steps, o.Teacher.Cosines = 20, 32, 32, 10, 3
	o.Student.Noise, o.Student.Hidden, o.Student.GeneratorSteps, o.Student.GeneratorRate = 8, 32, 40, 3e-3
	var errs [2]float64
	for k, coin := range []bool{false, true} {
		oracle := newCrowd(t, o, e, 60, studenttest.ImageRecord)
		oracle.coin, oracle.noise = coin, 0.01
		tr := mustNew(t, o, e, 1)
		run(t, tr, oracle, o.Rounds)
		for class := range 2 {
			m := studenttest.Means(tr.Generator(), class)
			for i, v := range m {
				want := 0.1
				if class == 0 && i%8 < 4 || class == 1 && i/8 < 4 {
					want = 0.9
				}
				errs[k] += math.Abs(v-want) / 128
			}
		}
	}
	t.Logf("pixels err by %.3f, by coin flips %.3f", errs[0], errs[1])
	if errs[0] > 0.25 || errs[0] > 0.7*errs[1] {
		t.Errorf("pixels of the means err by %.3f, by coin flips %.3f", errs[0], errs[1])
	}
}

// Rounds ask for the configured number of records of each class, in the ranges of an encoder, with new
// directions each.
func TestRounds(t *testing.T) {
	for name, c := range map[string]struct {
		o      Options
		e      *encode.Encoder
		record int
	}{"a table": {smallOptions(), studenttest.Table(t), 7}, "images": {imageOptions(), studenttest.Images(t, 8, 8, 1),
		64}} {
		oracle := newCrowd(t, c.o, c.e, 10, map[int]studenttest.Record{7: studenttest.TableRecord,
			64: studenttest.ImageRecord}[c.record])
		tr := mustNew(t, c.o, c.e, 1)
		directions := c.o.ChosenFor(c.e).Directions
		var seen []int
		testkit.Must(t, tr.Run(context.Background(), oracle, 3, studenttest.Nothing, func(p pipeline.Progress) {
			if p.Rounds != 3 || p.EpsilonSpent != float64(p.Round) || p.Queries != 12*directions ||
				p.Answered != p.Queries {
				t.Errorf("%s: progress %+v", name, p)
			}
			seen = append(seen, p.Round)
		}))
		if !slices.Equal(seen, []int{1, 2, 3}) || tr.Rounds() != 3 || len(oracle.asked) != 3 {
			t.Errorf("%s: rounds %v, %d learned from, %d asked", name, seen, tr.Rounds(), len(oracle.asked))
		}
		if diff := cmp.Diff([]string{"counts", "round 1", "round 2", "round 3"}, tr.Receipts); diff != "" ||
			tr.Spent != 3 || tr.TeachersLeast != 10 {
			t.Errorf("%s: spent %v, %d teachers %s", name, tr.Spent, tr.TeachersLeast, diff)
		}
		seeds := map[uint64]bool{}
		for _, q := range oracle.asked {
			seeds[q.Seed] = true
			if q.Width != c.record || len(q.Training) != 16*q.Width || len(q.TrainingClasses) != 16 ||
				len(q.Records) != 12*q.Width || len(q.Classes) != 12 {
				t.Errorf("%s: %d training values of %d records, %d values of %d records", name, len(q.Training),
					len(q.TrainingClasses), len(q.Records), len(q.Classes))
			}
			ones := 0
			for _, class := range q.Classes {
				ones += class
			}
			if ones != 6 {
				t.Errorf("%s: %d of 12 records are of class 1", name, ones)
			}
			for _, v := range append(slices.Clone(q.Training), q.Records...) {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%s: a value of %v", name, v)
				}
			}
		}
		if len(seeds) != 3 {
			t.Errorf("%s: %d seeds of three rounds", name, len(seeds))
		}
		// A complete run asks nothing more.
		if err := tr.Run(context.Background(), oracle, 3, studenttest.Nothing,
			studenttest.Unseen); err != nil || len(oracle.asked) != 3 {
			t.Errorf("%s: %d questions, %v", name, len(oracle.asked), err)
		}
	}
}

// variant is a student of a kind.
type variant struct {
	o      Options
	e      *encode.Encoder
	record studenttest.Record
}

// of is a case of the variant, and its crowd.
func (v variant) of(t *testing.T) (studenttest.Case[*pipeline.TeacherQuestion], *crowd) {
	oracle := newCrowd(t, v.o, v.e, 10, v.record)
	return studenttest.Case[*pipeline.TeacherQuestion]{
		New:   func() studenttest.Trainer { return mustNew(t, v.o, v.e, 1) },
		Asked: func() []*pipeline.TeacherQuestion { return oracle.asked },
		Run: func(tr studenttest.Trainer, keep func() error) error {
			return tr.(*Trainer).Run(t.Context(), oracle, v.o.Rounds, keep, studenttest.Unseen)
		},
	}, oracle
}

func variants(t *testing.T) map[string]variant {
	t.Helper()
	small, of := smallOptions(), imageOptions()
	table, images := studenttest.Table(t), studenttest.Images(t, 8, 8, 1)
	return map[string]variant{
		"tilted sums": {small, table, studenttest.TableRecord},
		"moved winners": {studenttest.With(t, small, "{answers: winner, directions: 3, student: {follow: move}}"),
			table,
			studenttest.TableRecord},
		"projected histogram": {studenttest.With(t, small, "{answers: histogram, directions: 4}"), table,
			studenttest.TableRecord},
		"images": {of, images, studenttest.ImageRecord},
		"convolved images": {studenttest.With(t, of, "{teacher: {features: plain}, student: {generator: convolution, "+
			"hidden: 4}}"), images, studenttest.ImageRecord},
	}
}

func TestResumeGivesTheSameBits(t *testing.T) {
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			studenttest.Resumes(t, func() studenttest.Case[*pipeline.TeacherQuestion] {
				c, _ := v.of(t)
				return c
			})
		})
	}
}

func TestAStudentWithAStart(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, name := range []string{"tilted sums", "moved winners", "images"} {
		v := variants(t)[name]
		v.o.Rounds = 3
		t.Run(name, func(t *testing.T) {
			studenttest.Starts(t, func() studenttest.Case[*pipeline.TeacherQuestion] {
				c, oracle := v.of(t)
				c.Records = studenttest.OfTeachers(t, v.e, oracle.real)
				return c
			}, v.o.Rounds, v.o.Rounds*v.o.Student.GeneratorSteps, v.o.Student.GeneratorSteps)
		})
	}
}

// A checkpoint in the middle of a run has the next question in it.
func TestCheckpointsAreTheirRuns(t *testing.T) {
	v := variant{movedOptions(), studenttest.Table(t), studenttest.TableRecord}
	others := map[string]studenttest.Trainer{}
	for name, section := range map[string]string{
		"a wider generator's": "student: {hidden: 17}", "with more records": "records: 14",
		"with more to train on": "teacher: {training: 18}",
	} {
		others[name] = mustNew(t, studenttest.With(t, v.o, section), v.e, 1)
	}
	c, _ := v.of(t)
	c.RefusesCheckpoints(t, c.Stopped(t, 2), "gpate", "remove the file and run again", others, map[string][2]string{
		"a question of no counts": {`"counts":[300,100]`, `"counts":null`},
		"a receipt too few":       {`"receipts":["counts",`, `"receipts":[`},
	})
}

// The same seed asks the same questions, another seed asks others.
func TestTheSeedRepeatsARun(t *testing.T) {
	o, e := movedOptions(), studenttest.Table(t)
	first := func(seed uint64) *pipeline.TeacherQuestion { return mustNew(t, o, e, seed).ask() }
	if !cmp.Equal(first(1), first(1)) {
		t.Error("the same seed asks other questions")
	}
	if a, b := first(1), first(2); slices.Equal(a.Records, b.Records) || slices.Equal(a.Training, b.Training) ||
		a.Seed == b.Seed {
		t.Error("another seed asks the same")
	}
}

// Errors of the oracle are returned unchanged, and a round without an answer teaches nothing. Earlier learning
// stays, for example when the budget is spent.
func TestErrorsPassThrough(t *testing.T) {
	o, e := movedOptions(), studenttest.Table(t)
	spent := errors.New("the budget is spent")
	oracle := newCrowd(t, o, e, 10, studenttest.TableRecord)
	oracle.spoil = func(round uint64, _ *pipeline.GradientAnswer) error {
		if round == 3 {
			return spent
		}
		return nil
	}
	tr := mustNew(t, o, e, 1)
	if err := tr.Run(context.Background(), oracle, 4, studenttest.Nothing, studenttest.Unseen); !errors.Is(err, spent) {
		t.Fatalf("got %v", err)
	}
	if tr.Rounds() != 2 || len(tr.Receipts) != 3 || tr.Spent != 2 {
		t.Errorf("%d rounds learned from, %d receipts, %v spent", tr.Rounds(), len(tr.Receipts), tr.Spent)
	}
	oracle.spoil = nil
	if err := tr.Run(context.Background(), oracle, 4, studenttest.Nothing,
		studenttest.Unseen); err != nil || tr.Rounds() != 4 {
		t.Errorf("%d rounds, %v", tr.Rounds(), err)
	}
	if n := len(oracle.asked); n != 5 || !cmp.Equal(oracle.asked[2], oracle.asked[3]) {
		t.Errorf("%d questions; the refused one must be asked again as it was", n)
	}

	// A state that cannot be stored ends the run before its question is asked.
	full := errors.New("the disk is full")
	oracle = newCrowd(t, o, e, 10, studenttest.TableRecord)
	if err := mustNew(t, o, e, 1).Run(context.Background(), oracle, 4, func() error {
		return full
	}, studenttest.Unseen); !errors.Is(err, full) || len(oracle.asked) != 0 {
		t.Errorf("%d questions, %v", len(oracle.asked), err)
	}

	for name, spoil := range map[string]func(*pipeline.GradientAnswer){
		"too short":    func(a *pipeline.GradientAnswer) { a.Sum = a.Sum[1:] },
		"not a number": func(a *pipeline.GradientAnswer) { a.Sum[5] = float32(math.NaN()) },
	} {
		oracle := newCrowd(t, o, e, 10, studenttest.TableRecord)
		oracle.spoil = func(_ uint64, a *pipeline.GradientAnswer) error {
			spoil(a)
			return nil
		}
		tr := mustNew(t, o, e, 1)
		if err := tr.Run(context.Background(), oracle, 4, studenttest.Nothing, studenttest.Unseen); err == nil ||
			!strings.Contains(err.Error(), "gpate: ") || tr.Rounds() != 0 {
			t.Errorf("%s: %d rounds, %v", name, tr.Rounds(), err)
		}
	}
}

// A generator whose weights are not numbers is said to have diverged.
func TestDivergenceIsSaid(t *testing.T) {
	o, e := movedOptions(), studenttest.Table(t)
	tr := mustNew(t, o, e, 1)
	oracle := newCrowd(t, o, e, 10, studenttest.TableRecord)
	oracle.spoil = func(uint64, *pipeline.GradientAnswer) error {
		tr.Learner.Generator.Net.Params()[0].Value[0] = float32(math.NaN())
		return nil
	}
	if err := tr.Run(context.Background(), oracle, 4, studenttest.Nothing, studenttest.Unseen); !errors.Is(err,
		errDiverged) {
		t.Errorf("got %v", err)
	}
}

// A vote without an answer moves nothing, whatever its histogram says.
func TestUnansweredVotesMoveNothing(t *testing.T) {
	o, e := movedOptions(), studenttest.Table(t)
	o.Answers, o.Directions = Histogram, 3
	run := func(count float64) *Trainer {
		oracle := newCrowd(t, o, e, 10, studenttest.TableRecord)
		oracle.spoil = func(_ uint64, a *pipeline.GradientAnswer) error {
			a.Winners[4], a.Histogram[4*o.Bins] = -1, count
			return nil
		}
		tr := mustNew(t, o, e, 1)
		testkit.Must(t, tr.Run(context.Background(), oracle, 1, studenttest.Nothing, func(p pipeline.Progress) {
			if p.Answered != 12*3-1 {
				t.Errorf("%d answered", p.Answered)
			}
		}))
		return tr
	}
	a, b := run(0).Generator().Net.Params(), run(1e6).Generator().Net.Params()
	for i := range a {
		if !slices.Equal(a[i].Value, b[i].Value) {
			t.Fatalf("parameter %s depends on a vote that was not answered", a[i].Name)
		}
	}
}

func ExampleNew() {
	o := DefaultOptions()
	o.Bins = 1
	_, err := New(o, nil, 2, 1)
	fmt.Println(err)
	// Output: gpate.bins: 1 is not between 2 and 256
}
