package gpate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

// asked is a trainer with the question of its first round.
func asked(t testing.TB, o Options, e *encode.Encoder) (*Trainer, *pipeline.TeacherQuestion) {
	t.Helper()
	tr := mustNew(t, o, e, 1)
	return tr, tr.ask()
}

// normals are steps of random numbers.
func normals(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// The mean length of a change over the records is the round's step, for any steps; zero steps give no change.
func TestChangesHaveTheLengthOfTheStep(t *testing.T) {
	plain := smallOptions()
	plain.Teacher.Features, plain.Student.Follow, plain.Student.Step, plain.Student.StepEnd = "plain", Move, 2, 0.5
	standard := plain
	standard.Teacher.Features = "standard"
	cosines := imageOptions()
	for name, c := range map[string]struct {
		o Options
		e *encode.Encoder
	}{"plain": {plain, studenttest.Table(t)}, "standard": {standard, studenttest.Table(t)},
		"cosines": {cosines, studenttest.Images(t, 8, 8, 1)}} {
		tr, q := asked(t, c.o, c.e)
		for tr.Done = range c.o.Rounds + 2 {
			steps := normals(len(q.Classes)*tr.seen, uint64(tr.Done))
			for i := range steps {
				steps[i] *= 1e-4
			}
			change, err := tr.changes(q, steps)
			testkit.Must(t, err)
			var squares float64
			for _, v := range change {
				squares += float64(v) * float64(v)
			}
			last := float64(c.o.Rounds - 1)
			want := c.o.Student.Step + (c.o.Student.StepEnd-c.o.Student.Step)*min(float64(tr.Done), last)/last
			if got := math.Sqrt(squares / float64(len(q.Classes))); len(change) != len(q.Classes)*q.Width ||
				math.Abs(got-want) > 1e-4 {
				t.Errorf("%s, round %d: %d numbers of length %v, want %v", name, tr.Done, len(change), got, want)
			}
		}
		change, err := tr.changes(q, make([]float32, len(q.Classes)*tr.seen))
		if err != nil || slices.Max(change) != 0 || slices.Min(change) != 0 {
			t.Errorf("%s: no steps change records by %v, %v", name, slices.Max(change), err)
		}
	}
}

// A single round has the first step.
func TestStepOfOneRound(t *testing.T) {
	o := smallOptions()
	o.Rounds, o.Student.Step, o.Student.StepEnd = 1, 2, 0.5
	if got := (&Trainer{NetworkStudent: &pipeline.NetworkStudent{}, opts: o}).step(); got != 2 {
		t.Errorf("the only round has a step of %v, want 2", got)
	}
}

// Steps of coefficients change images by their waves, steps of standard columns in units of the spread.
func TestChangesAreInUnitsOfRecords(t *testing.T) {
	o := imageOptions()
	tr, q := asked(t, o, studenttest.Images(t, 8, 8, 1))
	steps := make([]float32, len(q.Classes)*9)
	steps[0] = 1 // the mean of the first image
	steps[9+1] = 1
	change, err := tr.changes(q, steps)
	testkit.Must(t, err)
	for i := range 64 {
		if math.Abs(float64(change[i]-change[0])) > 1e-5 || change[0] <= 0 {
			t.Fatalf("pixel %d of the first image changes by %v, pixel 0 by %v", i, change[i], change[0])
		}
		wave := math.Cos(math.Pi*(float64(i%8)+0.5)/8) * math.Sqrt2 // along the columns
		if got := float64(change[64+i]); math.Abs(got-wave*float64(change[0])) > 1e-5 {
			t.Fatalf("pixel %d of the second image changes by %v, want %v", i, got, wave*float64(change[0]))
		}
	}
	if slices.Max(change[128:]) != 0 {
		t.Error("another image changes")
	}

	table := smallOptions()
	table.Student.Follow = Move
	tr, q = asked(t, table, studenttest.Table(t))
	units, err := scaling.New(q.Training, q.TrainingClasses, q.Width, 2, tr.numbers)
	testkit.Must(t, err)
	steps = make([]float32, len(q.Classes)*q.Width)
	for i := range steps {
		steps[i] = 1
	}
	if change, err = tr.changes(q, steps); err != nil {
		t.Fatal(err)
	}
	first, want := make([]float32, q.Width), make([]float32, q.Width)
	units.Change(first, steps[:q.Width], q.Classes[0])
	for i, c := range q.Classes {
		units.Change(want, steps[:q.Width], c)
		for j, w := range want {
			if got := change[i*q.Width+j] / change[0]; math.Abs(float64(got-w/first[0])) > 1e-4 {
				t.Errorf("record %d, column %d changes %v times as far as column 0 of record 0, want %v", i, j, got,
					w/first[0])
			}
		}
	}
}

// Moving brings the generator's records to their targets: numbers within the range, and choices along the step.
func TestMoveBringsRecordsToTheirTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a generator for long")
	}
	o := imageOptions()
	o.Teacher.Features, o.Student.GeneratorSteps, o.Student.GeneratorRate, o.Student.Noise, o.Student.Hidden = "plain",
		800, 3e-3, 16, 64
	o.Student.Step = 2
	tr, q := asked(t, o, studenttest.Images(t, 8, 8, 1))
	target := make([]float32, len(q.Records))
	steps := normals(len(q.Records), 8)
	change, err := tr.changes(q, slices.Clone(steps))
	testkit.Must(t, err)
	distance := func(x []float32) (sum float64) {
		for i, v := range x {
			sum += float64(v-target[i]) * float64(v-target[i]) / float64(len(q.Classes))
		}
		return math.Sqrt(sum)
	}
	for i, c := range change {
		target[i] = min(1, max(0, q.Records[i]+c))
	}
	before := distance(q.Records)
	testkit.Must(t, tr.move(t.Context(), q, &released{steps: steps}))
	x := make([]float32, len(q.Records))
	tr.Learner.Generator.Sample(x, q.Classes, tr.draws())
	if after := distance(x); !(before > 1.5) || after > before/5 {
		t.Errorf("records are %v from their targets, before %v", after, before)
	}
}

// Choices follow the sign of their step, and numbers their size.
func TestMoveOfTables(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a generator for long")
	}
	o := smallOptions()
	o.Teacher.Features, o.Student.Follow, o.Student.GeneratorSteps, o.Student.GeneratorRate, o.Student.Step = "plain",
		Move, 300, 5e-3, 1
	o.Records, o.Student.Noise = 200, 8
	tr, q := asked(t, o, studenttest.Table(t))
	steps := make([]float32, len(q.Records))
	for i := range q.Classes {
		row := steps[i*q.Width : (i+1)*q.Width]
		row[0], row[3], row[6] = 0.3, 1, -1 // larger a, c more often x, d less often 1
	}
	before := studenttest.Means(tr.Learner.Generator, 0)
	testkit.Must(t, tr.move(t.Context(), q, &released{steps: steps}))
	after := studenttest.Means(tr.Learner.Generator, 0)
	if after[0] < before[0]+0.1 || after[3] < 0.8 || after[6] > 0.2 {
		t.Errorf("means %.2f, before %.2f", after, before)
	}
}
