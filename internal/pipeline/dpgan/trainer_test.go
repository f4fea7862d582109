package dpgan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

type variant struct {
	o      Options
	e      *encode.Encoder
	record func(*rand.Rand, int) []float32
}

func variants(t testing.TB) map[string]variant {
	table, images := tableEncoder(t), imageEncoder(t)
	of := func(o Options, change func(*Options)) Options {
		change(&o)
		return o
	}
	return map[string]variant{
		"tilt":  {of(smallOptions(), func(o *Options) { o.Student.Steps = 3 }), table, tableRecord},
		"climb": {climbOptions(), table, tableRecord},
		"wasserstein": {of(climbOptions(), func(o *Options) {
			o.Discriminator.Loss, o.Discriminator.Decay = Wasserstein, 1
		}), table, tableRecord},
		"kl-wgan": {of(climbOptions(), func(o *Options) {
			o.Discriminator.Loss, o.Discriminator.Decay = KLWGAN, 1
		}), table, tableRecord},
		"remembered": {of(climbOptions(), func(o *Options) {
			o.Discriminator.Memory, o.Discriminator.Reuse, o.Student.StepEnd = 1, 3, 1e-3
		}), table, tableRecord},
		"pieces": {of(climbOptions(), func(o *Options) {
			o.Discriminator.Features, o.Discriminator.Fourier, o.Discriminator.Classes,
				o.Discriminator.Layers = "pieces", 10, "each", 0
		}), table, tableRecord},
		"adaptive": {of(climbOptions(), func(o *Options) { o.Student.Adapt = 0.9 }), table, tableRecord},
		"images":   {imageOptions(), images, imageRecord},
		"cosines": {of(climbOptions(), func(o *Options) {
			o.Discriminator.Features, o.Discriminator.Classes, o.Student.Generator, o.Student.Hidden = "cosines",
				"each", "convolution", 4
		}), images, imageRecord},
	}
}

// A student whose releases say much learns the records' means, and one whose releases hold
// no record does not.
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
			e := tableEncoder(t)
			learned := newPool(t, o, e, tableRecord)
			tr := mustNew(t, o, e, 1)
			testkit.Must(t, tr.Run(context.Background(), learned, o.Steps, nothing, unseen))
			null := newPool(t, o, e, tableRecord)
			null.nothing = true
			other := mustNew(t, o, e, 1)
			testkit.Must(t, other.Run(context.Background(), null, o.Steps, nothing, unseen))
			with, without := apart(learned, tr.Generator()), apart(learned, other.Generator())
			t.Logf("apart by %.3f, without records by %.3f", with, without)
			if with > 0.25 || without < 2*with {
				t.Errorf("apart by %.3f, without records by %.3f", with, without)
			}
		})
	}
}

// A student that was stopped now and then goes on as if it had not been: it asks the very
// same questions and ends with the same generator to the last bit.
func TestResumeGivesTheSameBits(t *testing.T) {
	for name, c := range variants(t) {
		t.Run(name, func(t *testing.T) {
			stop := errors.New("stop")
			straight, oracle := mustNew(t, c.o, c.e, 1), newPool(t, c.o, c.e, c.record)
			oracle.noise = 3
			testkit.Must(t, straight.Run(context.Background(), oracle, c.o.Steps, nothing, unseen))
			path := filepath.Join(t.TempDir(), "student.ckpt")
			again := newPool(t, c.o, c.e, c.record)
			again.noise = 3
			var tr *Trainer
			for starts := 1; ; starts++ {
				tr = mustNew(t, c.o, c.e, 1)
				if found, err := tr.Restore(path, "run"); err != nil || found != (starts > 1) {
					t.Fatalf("start %d: restored %v, %v", starts, found, err)
				}
				taken := 0
				err := tr.Run(context.Background(), again, c.o.Steps, func() error {
					// Every fourth step is saved, two steps later the student is stopped.
					if taken++; tr.Rounds()%4 == 0 || tr.Rounds() == c.o.Steps {
						return tr.Save(path, "run")
					}
					if taken > 5 {
						return stop
					}
					return nil
				}, unseen)
				if err == nil {
					break
				}
				if !errors.Is(err, stop) || starts > 2*c.o.Steps {
					t.Fatal(err)
				}
			}
			at := 0
			for _, q := range again.asked {
				if at < len(oracle.asked) && cmp.Equal(q, oracle.asked[at]) {
					at++
				} else if !slices.ContainsFunc(oracle.asked[:at], func(o *pipeline.DiscriminatorQuestion) bool {
					return cmp.Equal(q, o)
				}) {
					t.Fatalf("after question %d of %d another one was asked", at, len(oracle.asked))
				}
			}
			if at != len(oracle.asked) || len(again.asked) == at {
				t.Fatalf("%d of %d questions, in %d", at, len(oracle.asked), len(again.asked))
			}
			for i, p := range straight.Generator().Net.Params() {
				if !slices.Equal(p.Value, tr.Generator().Net.Params()[i].Value) {
					t.Fatalf("parameter %s differs after the restarts", p.Name)
				}
			}
			testkit.Same(t, "", straight.Learned, tr.Learned)
			testkit.Same(t, "", straight.Kept(), tr.Kept())
		})
	}
}

// Copies are kept at the ends of equal parts of the second half.
func TestCopiesOfTheSecondHalfAreKept(t *testing.T) {
	for keep, want := range map[int][]int{0: nil, 1: {20}, 4: {12, 15, 17, 20},
		40: {11, 12, 13, 14, 15, 16, 17, 18, 19, 20}} {
		o := climbOptions()
		o.Student.Keep = keep
		tr := mustNew(t, o, tableEncoder(t), 1)
		testkit.Must(t, tr.Run(context.Background(), newPool(t, o, tableEncoder(t), tableRecord), o.Steps, nothing,
			unseen))
		var steps []int
		for _, k := range tr.Kept() {
			steps = append(steps, k.Step)
		}
		if !slices.Equal(steps, want) {
			t.Errorf("keep %d: kept after steps %v, want %v", keep, steps, want)
		}
	}
}

// Errors of the oracle come through as they are, and nothing is learned from a round
// without an answer.
func TestErrorsPassThrough(t *testing.T) {
	o, e := climbOptions(), tableEncoder(t)
	spent := errors.New("the budget is spent")
	oracle := newPool(t, o, e, tableRecord)
	oracle.spoil = func(round uint64, _ *pipeline.DiscriminatorAnswer) error {
		if round == 3 {
			return spent
		}
		return nil
	}
	tr := mustNew(t, o, e, 1)
	if err := tr.Run(context.Background(), oracle, 4, nothing, unseen); !errors.Is(err, spent) {
		t.Fatalf("got %v", err)
	}
	if tr.Rounds() != 2 || len(tr.Receipts) != 3 || tr.Spent != 2 {
		t.Errorf("%d rounds learned from, %d receipts, %v spent", tr.Rounds(), len(tr.Receipts), tr.Spent)
	}
	for name, spoil := range map[string]func(*pipeline.DiscriminatorAnswer){
		"too short":    func(a *pipeline.DiscriminatorAnswer) { a.Sum = a.Sum[1:] },
		"not a number": func(a *pipeline.DiscriminatorAnswer) { a.Sum[5] = float32(math.NaN()) },
		"diverged":     func(a *pipeline.DiscriminatorAnswer) { a.Sum[5] = math.MaxFloat32 },
	} {
		oracle := newPool(t, o, e, tableRecord)
		o := o
		o.Discriminator.Optimizer, o.Discriminator.Momentum = "sgd", 0
		oracle.spoil = func(_ uint64, a *pipeline.DiscriminatorAnswer) error {
			spoil(a)
			return nil
		}
		tr := mustNew(t, o, e, 1)
		if err := tr.Run(context.Background(), oracle, 4, nothing, unseen); err == nil {
			t.Errorf("%s: %d rounds, %v", name, tr.Rounds(), err)
		}
	}
}

// The same seed asks the same questions, another one others.
func TestTheSeedRepeatsARun(t *testing.T) {
	o, e := climbOptions(), tableEncoder(t)
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
	tr := mustNew(t, o, tableEncoder(t), 1)
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

// n_D grows when the discriminator does not find generated records out, after a rest,
// and not beyond its bound.
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
	// Output: dpgan.batch: 6000 is larger than units, 5000; a step cannot take more than all
}

func TestCheckpointsAreTheirRuns(t *testing.T) {
	o, e := climbOptions(), tableEncoder(t)
	path := filepath.Join(t.TempDir(), "student.ckpt")
	tr := mustNew(t, o, e, 1)
	testkit.Must(t, tr.Run(context.Background(), newPool(t, o, e, tableRecord), o.Steps, nothing, unseen))
	testkit.Must(t, tr.Save(path, "run"))
	restore := func(o Options, identity string) error {
		_, err := mustNew(t, o, e, 1).Restore(path, identity)
		return err
	}
	testkit.Must(t, restore(o, "run"))
	if err := restore(o, "other"); !errors.Is(err, pipeline.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "use another output folder") {
		t.Errorf("another run's: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"a wider generator":     func(o *Options) { o.Student.Hidden++ },
		"a wider discriminator": func(o *Options) { o.Discriminator.Hidden++ },
		"fewer copies":          func(o *Options) { o.Student.Keep = 2 },
	} {
		o := o
		change(&o)
		if err := restore(o, "run"); !errors.Is(err, pipeline.ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
