package dpgan

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

type variant struct {
	o      Options
	e      *encode.Encoder
	record studenttest.Record
}

// of is a case of the variant, with noisy releases.
func (v variant) of(t *testing.T) studenttest.Case[*pipeline.DiscriminatorQuestion] {
	p := newPool(t, v.o, v.e, v.record)
	p.noise = 3
	return studenttest.Case[*pipeline.DiscriminatorQuestion]{
		New:   func() studenttest.Trainer { return mustNew(t, v.o, v.e, 1) },
		Asked: func() []*pipeline.DiscriminatorQuestion { return p.asked },
		Run: func(tr studenttest.Trainer, keep func() error) error {
			return tr.(*Trainer).Run(t.Context(), p, v.o.Steps, keep, studenttest.Unseen)
		},
	}
}

func variants(t testing.TB) map[string]variant {
	all := map[string]variant{}
	for name, change := range map[string]func(*Options){
		"climb":       func(*Options) {},
		"wasserstein": func(o *Options) { o.Discriminator.Loss, o.Discriminator.Decay = Wasserstein, 1 },
		"kl-wgan":     func(o *Options) { o.Discriminator.Loss, o.Discriminator.Decay = KLWGAN, 1 },
		"remembered": func(o *Options) {
			o.Discriminator.Memory, o.Discriminator.Reuse, o.Student.StepEnd = 1, 3, 1e-3
		},
		"pieces": func(o *Options) {
			o.Discriminator.Features, o.Discriminator.Fourier, o.Discriminator.Classes,
				o.Discriminator.Layers = "pieces",
				10, "each", 0
		},
		"adaptive": func(o *Options) { o.Student.Adapt = 0.9 },
	} {
		o := climbOptions()
		change(&o)
		all[name] = variant{o, studenttest.Table(t), studenttest.LevelRecord}
	}
	tilted, cosines, images := smallOptions(), climbOptions(), studenttest.Images(t, 8, 8, 1)
	tilted.Student.Steps = 3
	all["tilt"] = variant{tilted, studenttest.Table(t), studenttest.LevelRecord}
	all["images"] = variant{imageOptions(), images, studenttest.ImageRecord}
	cosines.Discriminator.Features, cosines.Discriminator.Classes = "cosines", "each"
	cosines.Student.Generator, cosines.Student.Hidden = "convolution", 4
	all["cosines"] = variant{cosines, images, studenttest.ImageRecord}
	return all
}

// A student with informative releases learns the records' means, and one whose releases contain no record does
// not.
func TestTheGeneratorFollowsTheRecords(t *testing.T) {
	for name, o := range map[string]Options{"tilt": smallOptions(), "climb": climbOptions()} {
		t.Run(name, func(t *testing.T) {
			o.Steps, o.Rate = 12, 1
			if o.Student.Follow == Climb {
				o.Steps, o.Student.Every, o.Student.Steps = 200, 1, 2
			}
			if testing.Short() {
				t.Skip("a run of full length")
			}
			e := studenttest.Table(t)
			learned := newPool(t, o, e, studenttest.LevelRecord)
			tr := mustNew(t, o, e, 1)
			run(t, tr, learned, o.Steps)
			null := newPool(t, o, e, studenttest.LevelRecord)
			null.nothing = true
			other := mustNew(t, o, e, 1)
			run(t, other, null, o.Steps)
			with, without := learned.Apart(tr.Generator(), 2), learned.Apart(other.Generator(), 2)
			t.Logf("apart by %.3f, without records by %.3f", with, without)
			if with > 0.25 || without < 2*with {
				t.Errorf("apart by %.3f, without records by %.3f", with, without)
			}
		})
	}
}

func TestResumeGivesTheSameBits(t *testing.T) {
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			v.o.Steps = 8
			straight, resumed := studenttest.Resumes(t, func() studenttest.Case[*pipeline.DiscriminatorQuestion] {
				return v.of(t)
			})
			testkit.Same(t, "", straight.(*Trainer).kept, resumed.(*Trainer).kept)
		})
	}
}

func TestAStudentWithAStart(t *testing.T) {
	for _, name := range []string{"tilt", "climb", "images"} {
		v := variants(t)[name]
		v.o.Steps, v.o.Student.Steps = 4, 3
		t.Run(name, func(t *testing.T) {
			studenttest.Starts(t, func() studenttest.Case[*pipeline.DiscriminatorQuestion] {
				c := v.of(t)
				c.Records = studenttest.NewRecords(t, v.e, 2, v.record)
				return c
			}, v.o.Steps, v.o.Steps/v.o.Student.Every*v.o.Student.Steps, v.o.Student.Steps)
		})
	}
}

// Copies are stored at the ends of equal parts of the second half.
func TestCopiesOfTheSecondHalfAreKept(t *testing.T) {
	for keep, want := range map[int][]int{0: nil, 1: {20}, 4: {12, 15, 17, 20},
		40: {11, 12, 13, 14, 15, 16, 17, 18, 19, 20}} {
		o := climbOptions()
		o.Student.Keep = keep
		tr := mustNew(t, o, studenttest.Table(t), 1)
		run(t, tr, newPool(t, o, studenttest.Table(t), studenttest.LevelRecord), o.Steps)
		var steps []int
		for _, k := range tr.kept {
			steps = append(steps, k.Step)
		}
		if !slices.Equal(steps, want) {
			t.Errorf("keep %d: kept after steps %v, want %v", keep, steps, want)
		}
	}
}

func TestWrongReleasesAreRefused(t *testing.T) {
	o, e := climbOptions(), studenttest.Table(t)
	for name, spoil := range map[string]func(*pipeline.DiscriminatorAnswer){
		"too short":    func(a *pipeline.DiscriminatorAnswer) { a.Sum = a.Sum[1:] },
		"not a number": func(a *pipeline.DiscriminatorAnswer) { a.Sum[5] = float32(math.NaN()) },
		"diverged":     func(a *pipeline.DiscriminatorAnswer) { a.Sum[5] = math.MaxFloat32 },
	} {
		oracle := newPool(t, o, e, studenttest.LevelRecord)
		o := o
		o.Discriminator.Optimizer, o.Discriminator.Momentum = "sgd", 0
		oracle.spoil = func(_ uint64, a *pipeline.DiscriminatorAnswer) error {
			spoil(a)
			return nil
		}
		tr := mustNew(t, o, e, 1)
		if err := tr.Run(context.Background(), oracle, 4, studenttest.Nothing, studenttest.Unseen); err == nil {
			t.Errorf("%s: %d rounds, %v", name, tr.Rounds(), err)
		}
	}
}

// The same seed asks the same questions, another seed asks others.
func TestTheSeedRepeatsARun(t *testing.T) {
	o, e := climbOptions(), studenttest.Table(t)
	first := func(seed uint64) *pipeline.DiscriminatorQuestion {
		q, err := mustNew(t, o, e, seed).ask()
		testkit.Must(t, err)
		return q
	}
	if !cmp.Equal(first(1), first(1)) || cmp.Equal(first(1), first(2)) {
		t.Error("questions do not follow from the seed")
	}
}

// The step size falls from the first to the last step as 1/t does.
func TestStepSizesFall(t *testing.T) {
	o := smallOptions()
	tr := mustNew(t, o, studenttest.Table(t), 1)
	var rates []float64
	for done := range o.Steps + 2 {
		tr.Done = done + 1
		rates = append(rates, tr.stepSize())
	}
	if rates[0] != 1 || math.Abs(rates[o.Steps-1]-0.2) > 1e-12 || rates[o.Steps+1] != rates[o.Steps-1] {
		t.Errorf("from %v to %v", rates[0], rates[o.Steps-1])
	}
	for i := 1; i < o.Steps; i++ {
		// 1/rate grows by the same at each step.
		if d := 1/rates[i] - 1/rates[i-1]; math.Abs(d-4.0/19) > 1e-9 {
			t.Errorf("step %d: 1/rate grows by %v", i, d)
		}
	}
}

// n_D grows when the discriminator does not detect generated records, after a rest, and not beyond its bound.
func TestTheScheduleAdapts(t *testing.T) {
	s := schedule{every: 3}
	for range 2 {
		if s.due() {
			t.Fatal("due too early")
		}
	}
	if !s.due() || s.due() {
		t.Fatal("not due after three steps, or twice")
	}
	s = schedule{every: 1}
	found, missed := []float32{-1, -2, -3, 1}, []float32{1, 1, 1, -1}
	for range 1000 {
		s.saw(found)
		s.adapt(0.6, 1)
	}
	if math.Abs(s.found-0.75) > 1e-3 || s.every != 1<<0 && s.every > 2 {
		t.Errorf("found %v, every %d", s.found, s.every)
	}
	every := s.every
	for i := range 20 * grace {
		s.saw(missed)
		s.adapt(0.6, 1)
		if s.every != every && s.every != 2*every {
			t.Fatalf("step %d: n_D went from %d to %d", i, every, s.every)
		}
		every = s.every
	}
	if s.every != maxGrow {
		t.Errorf("n_D is %d at last, want %d", s.every, maxGrow)
	}
	still := schedule{every: 1}
	for range 10 * grace {
		still.saw(missed)
		still.adapt(0, 1)
	}
	if still.every != 1 {
		t.Errorf("n_D is %d without a threshold", still.every)
	}
}

func ExampleNew() {
	o := DefaultOptions()
	o.Batch, o.Units = 6000, 5000
	_, err := New(o, nil, 2, 1)
	fmt.Println(err)
	// Output: dpgan.batch: 6000 is larger than units, 5000; use a smaller batch
}

func TestCheckpointsAreTheirRuns(t *testing.T) {
	v := variants(t)["climb"]
	others := map[string]studenttest.Trainer{}
	for name, change := range map[string]func(*Options){
		"a wider generator's":     func(o *Options) { o.Student.Hidden++ },
		"a wider discriminator's": func(o *Options) { o.Discriminator.Hidden++ },
		"with more copies":        func(o *Options) { o.Student.Keep = 2 },
	} {
		o := v.o
		change(&o)
		others[name] = mustNew(t, o, v.e, 1)
	}
	c := v.of(t)
	c.RefusesCheckpoints(t, c.Stopped(t, 19), "dpgan", "restore it from a backup", others, map[string][2]string{
		"no schedule":          {`"every":2`, `"every":0`},
		"a round of no counts": {`"counts":[400,200]`, `"counts":null`},
		"copies that are not":  {`"kept":[`, `"kept":[1,`},
	})
}
