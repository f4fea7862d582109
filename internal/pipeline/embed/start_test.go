package embed_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// One question is asked, in round 0; the class counts are those of the release, and the seed makes the student
// repeatable.
func TestAStudentAsksOnce(t *testing.T) {
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			oracle := v.own(t)
			tr := mustTrain(t, v, oracle, 1)
			keeps := 0
			testkit.Must(t, tr.Run(t.Context(), func() error { keeps++; return nil }))
			if !slices.Equal(oracle.Rounds, []uint64{0}) || tr.Rounds() != 0 || keeps < 3 {
				t.Errorf("rounds %v were asked, %d follow, the state was kept %d times", oracle.Rounds, tr.Rounds(),
					keeps)
			}
			notes := tr.Notes()
			if diff := cmp.Diff([]string{"embedding"}, notes.Receipts); diff != "" || notes.Spent != 0.25 ||
				notes.TeachersLeast != 10 || notes.Begun != v.o.Fit.Steps {
				t.Errorf("notes %+v", notes)
			}
			// The noise of a count is that of the release over the weight of ones. The chance of exceeding 7 of
			// its standard deviations is 3e-12, and the draw is fixed.
			scale := notes.CountScale * math.Sqrt2
			for c, count := range notes.Counts {
				want := 0.0
				for _, of := range oracle.Classes {
					if of == c {
						want++
					}
				}
				if len(notes.Counts) != v.classes || !(scale > 1) || math.Abs(count-want) > 7*scale {
					t.Errorf("class %d has %v records of %v, noise %v", c, count, want, scale)
				}
			}
			again := mustTrain(t, v, v.own(t), 1)
			other := mustTrain(t, v, v.own(t), 2)
			for _, tr := range []*embed.Trainer{again, other} {
				testkit.Must(t, tr.Run(t.Context(), studenttest.Nothing))
			}
			if !slices.Equal(studenttest.Weights(tr.Generator()), studenttest.Weights(again.Generator())) ||
				slices.Equal(studenttest.Weights(tr.Generator()), studenttest.Weights(other.Generator())) {
				t.Error("the generator does not follow from the seed")
			}
		})
	}
}

// A generator that is fitted to the features of records makes records like them, and one that is fitted to
// noise alone does not.
func TestTheGeneratorMatchesTheRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("a fit of full length")
	}
	for name, c := range map[string]struct {
		of    string
		steps int
		limit float64
	}{
		"a table":    {"a table", 500, 0.1},
		"no label":   {"no label", 400, 0.1},
		"one column": {"one column", 250, 0.1},
		"images":     {"images", 250, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			v := variants(t)[c.of]
			v.o.Fit.Steps, v.o.Fit.Batch, v.o.Student.Hidden = c.steps, 128, 32
			v.o.Fit.Average = 0.95
			v.o.Features.Waves, v.o.Features.PatchWaves = 100, 64 // fewer waves do not distinguish 64 pixels
			oracle, null := v.own(t), v.own(t)
			null.X, null.Classes = nil, nil
			tr, other := mustTrain(t, v, oracle, 1), mustTrain(t, v, null, 1)
			testkit.Must(t, errors.Join(tr.Run(t.Context(), studenttest.Nothing),
				other.Run(t.Context(), studenttest.Nothing)))
			with, without := oracle.Apart(tr.Generator(), v.classes), oracle.Apart(other.Generator(), v.classes)
			t.Logf("apart by %.3f, without records by %.3f", with, without)
			if with > c.limit || without < 2*with {
				t.Errorf("apart by %.3f, without records by %.3f", with, without)
			}
		})
	}
}

func TestResumeGivesTheSameBits(t *testing.T) {
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			v.o.Fit.Steps = 20
			var resumed studenttest.Case[uint64]
			studenttest.Resumes(t, func() studenttest.Case[uint64] { resumed = v.of(t); return resumed })
			if n := len(resumed.Asked()); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

func TestCheckpointsAreTheirRuns(t *testing.T) {
	v := variants(t)["a table"]
	others := map[string]studenttest.Trainer{}
	for name, change := range map[string]func(*embed.Options){
		"a wider generator's": func(o *embed.Options) { o.Student.Hidden++ },
		"of more waves":       func(o *embed.Options) { o.Features.Waves++ },
		"of fewer features":   func(o *embed.Options) { o.Features.Pairs = 0 },
	} {
		other := v
		change(&other.o)
		others[name] = mustTrain(t, other, v.own(t), 1)
	}
	c := v.of(t)
	c.RefusesCheckpoints(t, c.Stopped(t, 0), "embed", "remove the file and run again", others, nil)
}

// A checkpoint from before the answer has no release: the question is asked again.
func TestACheckpointBeforeTheRelease(t *testing.T) {
	v := variants(t)["a table"]
	path := filepath.Join(t.TempDir(), "student.safetensors")
	testkit.Must(t, mustTrain(t, v, v.own(t), 1).Save(path, "run"))
	oracle := v.own(t)
	tr := mustTrain(t, v, oracle, 1)
	if found, err := tr.Restore(path, "run"); err != nil || !found {
		t.Fatalf("restored %v, %v", found, err)
	}
	if err := tr.Run(t.Context(), studenttest.Nothing); err != nil || len(oracle.Rounds) != 1 {
		t.Errorf("asked in rounds %v, %v", oracle.Rounds, err)
	}
}

// A context that ends stops the fit, which resumes from the stored state.
func TestAStudentIsStopped(t *testing.T) {
	v := variants(t)["a table"]
	path := filepath.Join(t.TempDir(), "student.safetensors")
	ctx, cancel := context.WithCancel(t.Context())
	oracle := v.own(t)
	tr, kept := mustTrain(t, v, oracle, 1), 0
	err := tr.Run(ctx, func() error {
		if kept++; kept == 3 {
			cancel()
		}
		return tr.Save(path, "run")
	})
	if !errors.Is(err, context.Canceled) || kept != 3 {
		t.Fatalf("kept %d times, %v", kept, err)
	}
	if found, err := mustTrain(t, v, oracle, 1).Restore(filepath.Join(t.TempDir(), "none"), "run"); found ||
		err != nil {
		t.Errorf("restored from studenttest.Nothing: %v, %v", found, err)
	}
}

// Progress counts the steps up to all of them.
func TestStepsAreWatched(t *testing.T) {
	v := variants(t)["a table"]
	for _, steps := range []int{1, 7, 45} {
		v.o.Fit.Steps = steps
		e, last := v.e, 0
		tr, err := embed.New(v.o, e, 2, 1)
		testkit.Must(t, err)
		s, err := embed.NewStart(v.o, e, 2, 1, v.own(t), func(done, of int) {
			if of != steps || done <= last || done > of {
				t.Errorf("step %d of %d after %d", done, of, last)
			}
			last = done
		})
		testkit.Must(t, err)
		tr.StartWith(s)
		testkit.Must(t, tr.Run(t.Context(), studenttest.Nothing))
		if tr.Notes().Begun != steps || last < steps*9/10 {
			t.Errorf("%d steps: %d were taken, the last that was seen is %d", steps, tr.Notes().Begun, last)
		}
	}
}

// Releases that do not fit are refused, and leave no notes. Errors of the oracle and of keep are returned
// unchanged.
func TestWrongReleasesAreRefused(t *testing.T) {
	v := variants(t)["a table"]
	over := errors.New("the budget is spent")
	for name, c := range map[string]struct {
		spoil func(a *embed.Answer)
		err   error
		want  string
	}{
		"NaN": {spoil: func(a *embed.Answer) {
			a.Sum[7] = float32(math.NaN())
		}, want: "embed: number 7 of the release is not finite"},
		"infinite": {spoil: func(a *embed.Answer) {
			a.Sum[0] = float32(math.Inf(-1))
		}, want: "embed: number 0 of the release is not finite"},
		"a number less":       {spoil: func(a *embed.Answer) { a.Sum = a.Sum[1:] }, want: "embed: the release has"},
		"a number more":       {spoil: func(a *embed.Answer) { a.Sum = append(a.Sum, 0) }, want: "of 2 classes"},
		"studenttest.Nothing": {spoil: func(a *embed.Answer) { a.Sum = nil }, want: "embed: the release has 0 numbers"},
		"of the oracle":       {err: over, want: over.Error()},
	} {
		oracle := v.own(t)
		oracle.Spoil = func(a *embed.Answer) error {
			if c.spoil != nil {
				c.spoil(a)
			}
			return c.err
		}
		tr := mustTrain(t, v, oracle, 1)
		err := tr.Run(t.Context(), func() error { t.Errorf("%s: kept", name); return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if n := tr.Notes(); n.Counts != nil || n.Receipts != nil || n.Begun != 0 {
			t.Errorf("%s: noted %+v", name, n)
		}
	}
	full := errors.New("no space left")
	if err := mustTrain(t, v, v.own(t), 1).Run(t.Context(), func() error {
		return full
	}); !errors.Is(err, full) {
		t.Errorf("an error of keep: %v", err)
	}
}

// An error about divergence says what helps.
func TestDivergenceIsSaid(t *testing.T) {
	v := variants(t)["a table"]
	v.o.Fit.StepSize, v.o.Fit.StepEnd, v.o.Student.Layers = 1e3, 1e3, 16
	if err := mustTrain(t, v, v.own(t), 1).Run(t.Context(), studenttest.Nothing); !errors.Is(err,
		pipeline.ErrDiverged) ||
		!strings.Contains(err.Error(), "lower fit.step_size") {
		t.Errorf("error %v", err)
	}
}

// A learner of another pipeline that is pulled away from its start stays near it with Hold.
func TestHoldKeepsTheGeneratorNear(t *testing.T) {
	if testing.Short() {
		t.Skip("a fit of full length")
	}
	v := variants(t)["a table"]
	v.o.Fit.Steps, v.o.Student.Hidden = 300, 32
	e := v.e
	after := func(hold bool) float64 {
		oracle := v.own(t)
		s, err := embed.NewStart(v.o, e, 2, 1, oracle, unwatched)
		testkit.Must(t, err)
		rng := rand.New(rand.NewPCG(1, 2))
		g, err := pipeline.NewGenerator(e, pipeline.GeneratorSpec{Noise: 6, Hidden: 32, Layers: 2, Classes: 2}, rng)
		testkit.Must(t, err)
		l := pipeline.NewLearner(g, 1e-3)
		var notes pipeline.Learned
		testkit.Must(t, s.Begin(t.Context(), &notes, l, rng, studenttest.Nothing))
		l.SetRate(2e-3)
		classes := pipeline.Balanced(64, 2)
		x, grad := make([]float32, 64*g.Width()), make([]float32, 64*g.Width())
		for range 150 {
			g.Sample(x, classes, rng)
			for i := range grad { // away from the records in one column
				if grad[i] = 0; i%g.Width() == 0 {
					grad[i] = -1e-3
				}
			}
			l.Step(grad, x)
			if hold {
				s.Hold(l, rng)
			}
		}
		return oracle.Apart(g, 2)
	}
	held, free := after(true), after(false)
	t.Logf("held it is apart by %.3f, free by %.3f", held, free)
	if held > free/2 {
		t.Errorf("held it is apart by %.3f, free by %.3f", held, free)
	}
}
