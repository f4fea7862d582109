package run

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// dpganSpec is a run of DPGAN with its steps set by hand.
func dpganSpec(change func(*Spec)) *Spec {
	s := runfile.DefaultSpec()
	s.Name, s.Pipeline, s.Teachers, runfile.Section[embed.WarmStart](s).Embed = "d1", "dpgan", 40, 0
	s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-5
	runfile.Section[dpgan.Options](s).Steps, runfile.Section[dpgan.Options](s).Rate, runfile.Section[dpgan.Options](s).ClassEpsilon = 30, 0.1, 0.05
	change(s)
	return s
}

// What is calibrated fits the budget by the privacy loss of the whole plan, and a
// thousandth less of noise does not.
func TestTheDPGANPlanUsesTheBudgetAndNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	wide, images := parsed(t, wideText), parsed(t, imageSchema)
	for name, c := range map[string]struct {
		schema *partition.Schema
		change func(*Spec)
	}{
		"samples":  {wide, func(*Spec) {}},
		"all":      {wide, func(s *Spec) { runfile.Section[dpgan.Options](s).Rate = 1 }},
		"one step": {wide, func(s *Spec) { runfile.Section[dpgan.Options](s).Steps = 1 }},
		"a batch": {wide, func(s *Spec) {
			runfile.Section[dpgan.Options](s).Rate, runfile.Section[dpgan.Options](s).Batch, runfile.Section[dpgan.Options](s).Units = 0, 10, 200
		}},
		"everything chosen": {wide, func(s *Spec) { *runfile.Section[dpgan.Options](s) = dpgan.DefaultOptions() }},
		"images":            {images, func(*Spec) {}},
	} {
		for _, epsilon := range []float64{0.3, 10} {
			t.Run(fmt.Sprintf("%s, epsilon %g", name, epsilon), func(t *testing.T) {
				s := dpganSpec(c.change)
				s.Privacy.Epsilon = epsilon
				p, err := NewPlan(s, c.schema)
				if err != nil {
					t.Fatal(err)
				}
				e := encode.New(c.schema)
				o := runfile.Section[dpgan.Options](s).ChosenFor(e)
				net, err := discriminator.New(o.Spec(e, 2), rand.New(rand.NewPCG(0, 0)))
				if err != nil {
					t.Fatal(err)
				}
				if p.Rounds != o.Steps || p.PerRound != net.Parameters() || p.Queries != p.Rounds*p.PerRound || p.Classes != 2 || p.ClassShareEpsilon != o.ClassEpsilon {
					t.Errorf("plan %+v", p)
				}
				if m := p.Training.Mechanism; m.Rate != o.Rate || !p.Sums() || !p.Sampled() || p.Filter() != privacy.FilterPLD || p.Releases(p.Queries) != int64(p.Rounds) {
					t.Errorf("mechanism %v, filter %q", m, p.Filter())
				}
				spec := p.RunSpec(s, c.schema, "d", false)
				told := spec.Plan[len(spec.Plan)-1]
				if told.Kind != runspec.Discriminator || told.Count != uint64(p.Rounds) || spec.Filter != "pld" || spec.Pipeline != "dpgan" || told.Mechanism.Rate != o.Rate || spec.Quorum != 0.9 || spec.DeadlineSeconds != 60 {
					t.Errorf("the aggregator is told %v", spec)
				}
				budget := privacy.Budget{Epsilon: epsilon, Delta: 1e-5, Filter: privacy.FilterPLD}
				plan := p.Planned()
				if _, err := plan.Check(budget); err != nil {
					t.Errorf("the plan does not fit: %v", err)
				}
				if o.Rate == 1 || p.Rounds == 1 { // quick to account
					plan[1].Mechanism.NoiseMultiplier *= 0.997
					if _, err := plan.Check(budget); !errors.Is(err, privacy.ErrOverBudget) {
						t.Errorf("less noise fits as well: %v", err)
					}
				}
			})
		}
	}
}

// What leaves a node and what it is sent is no more than forecast, and the claim is within
// the budget.
func TestForecastOfDPGAN(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for name, c := range map[string]struct {
		schema *partition.Schema
		change func(*Spec)
	}{
		"a table":        {parsed(t, wideText), func(*Spec) {}},
		"all of a table": {parsed(t, wideText), func(s *Spec) { runfile.Section[dpgan.Options](s).Rate = 1 }},
		"standard": {parsed(t, wideText), func(s *Spec) {
			runfile.Section[dpgan.Options](s).Discriminator.Features, runfile.Section[dpgan.Options](s).Discriminator.Classes, runfile.Section[dpgan.Options](s).Discriminator.Loss = "standard", "told", dpgan.Logistic
		}},
		"noise by hand": {parsed(t, wideText), func(s *Spec) { runfile.Section[dpgan.Options](s).Noise = 50 }},
		"images":        {parsed(t, imageSchema), func(*Spec) {}},
		"convolutions":  {parsed(t, imageSchema), func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Kind = "convolution" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := dpganSpec(c.change)
			f, err := NewForecast(s, c.schema, Node{Dataset: "d", Site: "north", Node: "1", Teachers: 15})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPlan(s, c.schema)
			if err != nil {
				t.Fatal(err)
			}
			if f.Rounds != p.Rounds || f.Queries != p.Queries || f.Admitted != int64(p.Queries) || f.Unanimous != 0 {
				t.Errorf("forecast %+v of plan %+v", f, p)
			}
			if !(f.Claim.Epsilon <= f.Epsilon) || !(f.FilterEpsilon <= f.Epsilon) || runfile.Section[dpgan.Options](s).Noise == 0 && f.Claim.Epsilon < 0.99*f.Epsilon {
				t.Errorf("claim %v, filter %v, budget %v", f.Claim.Epsilon, f.FilterEpsilon, f.Epsilon)
			}
			if claim, err := privacy.Account(f.Events, f.Delta); err != nil || claim.Epsilon != f.Claim.Epsilon || len(f.Events) != 2 || f.Events[1].Count != int64(p.Rounds) {
				t.Errorf("events %v, claim %v, %v", f.Events, claim, err)
			}
			// A million units at a node, of the largest gradients, in the last round.
			e := encode.New(c.schema)
			w := &dpganWork{s}
			o := w.chosen(e)
			a := w.asker(o, e, 2, false)
			sum := slices.Repeat([]int64{-1_000_000 * discriminatorBound}, p.PerRound)
			answer := proto.Size(&conclavev1.WorkRequest{Attempt: 3000, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: s.Name, Round: uint64(p.Rounds), Values: sum}}})
			if m := f.Leaving[2]; m.Name != "gradient sums" || m.Times != p.Rounds || m.Bytes < answer || m.Bytes > answer+8+2*p.PerRound {
				t.Errorf("leaving %+v, a message has %d bytes", m, answer)
			}
			q := &pipeline.DiscriminatorQuestion{Weights: slices.Repeat([]float32{1.5}, p.PerRound)}
			if o.Discriminator.Features == "standard" {
				q.Mean, q.Scale = slices.Repeat([]float32{0.5}, 2*e.Width()), slices.Repeat([]float32{2}, 2*e.Width())
			}
			sent := proto.Size(a.round(s.Name, uint64(p.Rounds), q))
			if m := f.Arriving[0]; m.Times != p.Rounds || m.Bytes < sent || m.Bytes > sent+8 {
				t.Errorf("arriving %+v, a message has %d bytes", m, sent)
			}
		})
	}
}

// Mistakes in the dpgan part of a run.yaml are found by Load or Prepare, before anything is
// asked.
func TestDPGANSpecsThatCannotWork(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for name, c := range map[string]struct {
		schema, options string
		want            string // nothing: it works
	}{
		"a table":                 {wideText, "dpgan: {steps: 5}", ""},
		"images":                  {imageSchema, "dpgan: {steps: 5}", ""},
		"noise by hand":           {wideText, "dpgan: {steps: 5, noise: 20}", ""},
		"rate":                    {wideText, "dpgan: {rate: 2}", "run.yaml: dpgan.rate: 2 is not between"},
		"batch":                   {wideText, "dpgan: {batch: 5}", "dpgan.batch: 5 needs units"},
		"an unknown field":        {wideText, "dpgan: {step: 3}", `unknown field "step"`},
		"a nested unknown field":  {wideText, "dpgan: {student: {rate: 3}}", `unknown field "rate"`},
		"cosines of a table":      {wideText, "dpgan: {discriminator: {features: cosines}}", "run.yaml: dpgan.discriminator.features: cosines is for images only"},
		"too many weights":        {wideText, "dpgan: {discriminator: {fourier: 100000}}", "dpgan.discriminator: a discriminator of more than 131072 weights"},
		"too large class shares":  {wideText, "dpgan: {class_epsilon: 2}", "dpgan.class_epsilon: 2 leaves nothing of privacy.epsilon 1 for 100 steps"},
		"no class shares":         {wideText, "dpgan: {class_epsilon: 1e-14}", "dpgan.class_epsilon: 1e-14"},
		"too little noise":        {wideText, "dpgan: {steps: 1, noise: 0.5}", "run.yaml: dpgan.noise: 0.5"},
		"too little for all":      {wideText, "dpgan: {steps: 100, noise: 6}", "run.yaml: dpgan.noise: 6"},
		"noise that is not drawn": {wideText, "dpgan: {steps: 1, noise: 1e-9}", "noise"},
		"too much noise":          {wideText, "dpgan: {steps: 1, noise: 1e6}", "noise"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"schema.yaml": c.schema, "run.yaml": good + "teachers: 100\npipeline: dpgan\nwarm_start: {embed: 0}\n" + c.options + "\n"})
			s, err := runfile.Load(filepath.Join(dir, "run.yaml"))
			if err == nil {
				_, err = Prepare(s)
			}
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
				t.Errorf("%d files after it (%v)", len(entries), err)
			}
		})
	}
}

func TestIdentityNamesTheOptionsOfDPGAN(t *testing.T) {
	schema := parsed(t, wideText)
	want := identity(dpganSpec(func(*Spec) {}), schema, false)
	for name, change := range map[string]func(*Spec){
		"pipeline":      func(s *Spec) { s.Pipeline = "gpate" },
		"steps":         func(s *Spec) { runfile.Section[dpgan.Options](s).Steps++ },
		"rate":          func(s *Spec) { runfile.Section[dpgan.Options](s).Rate = 0.11 },
		"clip":          func(s *Spec) { runfile.Section[dpgan.Options](s).Clip = 3 },
		"noise":         func(s *Spec) { runfile.Section[dpgan.Options](s).Noise = 30 },
		"class_epsilon": func(s *Spec) { runfile.Section[dpgan.Options](s).ClassEpsilon *= 1.0000001 },
		"loss":          func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Loss = dpgan.KLWGAN },
		"fourier":       func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Fourier = 10 },
		"memory":        func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Memory = 0.5 },
		"generated":     func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Generated = 100 },
		"every":         func(s *Spec) { runfile.Section[dpgan.Options](s).Student.Every = 7 },
		"step size":     func(s *Spec) { runfile.Section[dpgan.Options](s).Student.StepSize = 0.0123 },
		"kept":          func(s *Spec) { runfile.Section[dpgan.Options](s).Student.Keep++ },
	} {
		if identity(dpganSpec(change), schema, false) == want {
			t.Errorf("%s does not change the identity", name)
		}
	}
	if identity(dpganSpec(func(*Spec) {}), schema, true) == want {
		t.Error("the baseline has the identity of the run")
	}
	for name, change := range map[string]func(*Spec){
		"what is chosen": func(s *Spec) {
			*runfile.Section[dpgan.Options](s) = runfile.Section[dpgan.Options](s).ChosenFor(encode.New(schema))
		},
		"a batch of the same rate": func(s *Spec) {
			runfile.Section[dpgan.Options](s).Rate, runfile.Section[dpgan.Options](s).Batch, runfile.Section[dpgan.Options](s).Units = 0, 20, 200
		},
		"an option of another":       func(s *Spec) { runfile.Section[gpate.Options](s).Records++ },
		"the rows that are released": func(s *Spec) { s.Release.Rows++ },
	} {
		if identity(dpganSpec(change), schema, false) != want {
			t.Errorf("%s changes the identity", name)
		}
	}
}

// The rounds that nodes are sent.
func TestDiscriminatorRounds(t *testing.T) {
	a := discriminatorAsker{spec: &conclavev1.Discriminator{Layers: 3}, loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, rate: 0.25, clip: 2, features: 2}
	q := &pipeline.DiscriminatorQuestion{Weights: []float32{1, -2, 0.5}}
	want := &conclavev1.DiscriminatorSum{
		Discriminator: a.spec, Weights: safetensors.Bytes(q.Weights), Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Rate: 0.25, Clip: 2, Bound: 1 << 16,
	}
	r := a.round("r", 4, q)
	vector := &conclavev1.Vector{
		Entries: 3, Bound: 1 << 16, Norm: conclavev1.Vector_NORM_L2, Per: conclavev1.Vector_PER_UNIT, Rate: 0.25,
	}
	if r.Run != "r" || r.Number != 4 || !paramsEqual(t, r, want) || !proto.Equal(r.GetSum(), vector) {
		t.Errorf("round %v, want %v", r, want)
	}
	q.Mean, q.Scale = []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}
	a.nothing, want.Nothing = true, true
	shape := []uint32{2, 2}
	want.Mean, want.Scale = &conclavev1.Tensor{Shape: shape, Data: safetensors.Bytes(q.Mean)}, &conclavev1.Tensor{Shape: shape, Data: safetensors.Bytes(q.Scale)}
	if r = a.round("r", 5, q); !paramsEqual(t, r, want) {
		t.Errorf("round %v, want %v", r, want)
	}
}

// paramsEqual says whether a round's parameters are the ones that are wanted.
func paramsEqual(t *testing.T, r *conclavev1.Round, want proto.Message) bool {
	t.Helper()
	got := want.ProtoReflect().New().Interface()
	testkit.Must(t, proto.Unmarshal(r.GetParams(), got))
	return proto.Equal(got, want)
}

// A release becomes the sum in the units of gradients, with how much noise is on it.
func TestDiscriminatorReleases(t *testing.T) {
	a := discriminatorAsker{clip: 3}
	release := func(teachers uint32, scale uint64, values ...int64) *conclavev1.Release {
		return &conclavev1.Release{
			Round: 7, Teachers: teachers, LedgerHash: "hash", EpsilonSpent: 0.5,
			Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: values, Scale: scale}},
		}
	}
	got, err := a.read(release(30, 1<<16, 1<<16, -1<<15, 1<<36), 3, 1.5, 40)
	if err != nil {
		t.Fatal(err)
	}
	want := &pipeline.DiscriminatorAnswer{Sum: []float32{3, -1.5, 3 << 20}, Noise: 4.5, Share: 0.75, Receipt: "hash", Teachers: 30, EpsilonSpent: 0.5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	votes := release(30, 1<<16, 1, 2, 3)
	votes.Answer = &conclavev1.Release_Votes{Votes: &conclavev1.NoisyVotes{Labels: []int32{1, 2, 3}}}
	for name, bad := range map[string]*conclavev1.Release{
		"a number less": release(30, 1<<16, 1, 2), "a number more": release(30, 1<<16, 1, 2, 3, 4), "another scale": release(30, 1<<15, 1, 2, 3),
		"no teachers": release(0, 1<<16, 1, 2, 3), "votes": votes, "nothing": {Round: 7, Teachers: 30},
	} {
		if got, err := a.read(bad, 3, 1.5, 40); err == nil || !strings.Contains(err.Error(), "round 7 does not fit its 3 weights") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// What a round asks for is what the options say.
func TestDiscriminatorsAreAskedForAsOptionsSay(t *testing.T) {
	ask := func(text string, change func(*Spec)) *discriminatorAsker {
		w, e := &dpganWork{dpganSpec(change)}, encode.New(parsed(t, text))
		return w.asker(w.chosen(e), e, 2, false)
	}
	const dense, convolution = conclavev1.Discriminator_KIND_DENSE, conclavev1.Discriminator_KIND_CONVOLUTION
	const each, told = conclavev1.Discriminator_CLASSES_EACH, conclavev1.Discriminator_CLASSES_TOLD
	a := ask(wideText, func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Fourier = 20 })
	if want := (&conclavev1.Discriminator{Kind: dense, Hidden: 128, Classes: 2, ByClass: each, Pieces: true, Fourier: 20, Seed: 1}); !proto.Equal(a.spec, want) {
		t.Errorf("asked for %v, want %v", a.spec, want)
	}
	if a.loss != conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN || a.rate != 0.1 || !(a.clip > 1) || a.nothing {
		t.Errorf("loss %v, rate %v, clip %v", a.loss, a.rate, a.clip)
	}
	a = ask(imageSchema, func(s *Spec) {
		runfile.Section[dpgan.Options](s).Discriminator.Kind, runfile.Section[dpgan.Options](s).Discriminator.Classes, runfile.Section[dpgan.Options](s).Clip = "convolution", "told", 0.3
	})
	if want := (&conclavev1.Discriminator{Kind: convolution, Hidden: 16, Layers: 1, Classes: 2, ByClass: told, Seed: 1}); a.spec.Kind != want.Kind || a.spec.ByClass != told || a.spec.Hidden != 16 || a.clip != 0.3 {
		t.Errorf("asked for %v, clip %v", a.spec, a.clip)
	}
	for loss, want := range map[dpgan.Loss]conclavev1.DiscriminatorSum_Loss{
		dpgan.Logistic: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, dpgan.Wasserstein: conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN,
		dpgan.KLWGAN: conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN, // that of real records
	} {
		if a := ask(wideText, func(s *Spec) { runfile.Section[dpgan.Options](s).Discriminator.Loss = loss }); a.loss != want {
			t.Errorf("%s is asked for as %v", loss, a.loss)
		}
	}
	// The fixed-point unit costs little of a gradient.
	if share := math.Sqrt(1<<17) / discriminatorBound; share > 0.01 {
		t.Errorf("rounding takes up to %v of a gradient", share)
	}
}
