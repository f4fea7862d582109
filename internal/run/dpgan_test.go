package run

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/discriminator"
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
func dpganSpec(change func(*runfile.Spec)) *runfile.Spec {
	s := runfile.DefaultSpec()
	s.Name, s.Pipeline, s.Teachers, runfile.Section[embed.WarmStart](s).Embed = "d1", "dpgan", 40, 0
	s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-5
	runfile.Section[dpgan.Options](s).Steps, runfile.Section[dpgan.Options](s).Rate,
		runfile.Section[dpgan.Options](s).ClassEpsilon = 30, 0.1, 0.05
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
		change func(*runfile.Spec)
	}{
		"samples":  {wide, func(*runfile.Spec) {}},
		"all":      {wide, func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Rate = 1 }},
		"one step": {wide, func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Steps = 1 }},
		"a batch": {wide, func(s *runfile.Spec) {
			runfile.Section[dpgan.Options](s).Rate, runfile.Section[dpgan.Options](s).Batch,
				runfile.Section[dpgan.Options](s).Units = 0, 10, 200
		}},
		"everything chosen": {wide, func(s *runfile.Spec) {
			*runfile.Section[dpgan.Options](s) = dpgan.DefaultOptions()
		}},
		"images": {images, func(*runfile.Spec) {}},
	} {
		for _, epsilon := range []float64{0.3, 10} {
			if epsilon == 10 && name != "samples" && name != "images" {
				continue
			}
			t.Run(fmt.Sprintf("%s, epsilon %g", name, epsilon), func(t *testing.T) {
				s := dpganSpec(c.change)
				s.Privacy.Epsilon = epsilon
				p, err := NewPlan(s, c.schema)
				testkit.Must(t, err)
				e := encode.New(c.schema)
				o := runfile.Section[dpgan.Options](s).ChosenFor(e)
				net, err := discriminator.New(o.Spec(e, 2), rand.New(rand.NewPCG(0, 0)))
				testkit.Must(t, err)
				if p.Rounds != o.Steps || p.PerRound != net.Parameters() || p.Queries != p.Rounds*p.PerRound ||
					p.Classes != 2 || p.ClassShareEpsilon != o.ClassEpsilon {
					t.Errorf("plan %+v", p)
				}
				if m := p.Training.Mechanism; m.Rate != o.Rate || !p.Sums() || !p.Sampled() ||
					p.Filter() != privacy.FilterPLD || p.Releases(p.Queries) != int64(p.Rounds) {
					t.Errorf("mechanism %v, filter %q", m, p.Filter())
				}
				spec := RunSpec(p, s, c.schema, "d", false)
				told := spec.Plan[len(spec.Plan)-1]
				if told.Kind != runspec.Discriminator || told.Count != uint64(p.Rounds) || spec.Filter != "pld" ||
					spec.Pipeline != "dpgan" || told.Mechanism.Rate != o.Rate || spec.Quorum != 0.9 ||
					spec.DeadlineSeconds != 60 {
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
		change func(*runfile.Spec)
	}{
		"a table":        {parsed(t, wideText), func(*runfile.Spec) {}},
		"all of a table": {parsed(t, wideText), func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Rate = 1 }},
		"standard": {parsed(t, wideText), func(s *runfile.Spec) {
			runfile.Section[dpgan.Options](s).Discriminator.Features,
				runfile.Section[dpgan.Options](s).Discriminator.Classes,
				runfile.Section[dpgan.Options](s).Discriminator.Loss = "standard", "told", dpgan.Logistic
		}},
		"noise by hand": {parsed(t, wideText), func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Noise = 50 }},
		"images":        {parsed(t, imageSchema), func(*runfile.Spec) {}},
		"convolutions": {parsed(t, imageSchema), func(s *runfile.Spec) {
			runfile.Section[dpgan.Options](s).Discriminator.Kind = "convolution"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := dpganSpec(c.change)
			f, err := NewForecast(s, c.schema, Node{Dataset: "d", Site: "north", Node: "1", Teachers: 15})
			testkit.Must(t, err)
			p, err := NewPlan(s, c.schema)
			testkit.Must(t, err)
			if f.Rounds != p.Rounds || f.Queries != p.Queries || f.Admitted != int64(p.Queries) || f.Unanimous != 0 {
				t.Errorf("forecast %+v of plan %+v", f, p)
			}
			if !(f.Claim.Epsilon <= f.Epsilon) || !(f.FilterEpsilon <= f.Epsilon) ||
				runfile.Section[dpgan.Options](s).Noise == 0 && f.Claim.Epsilon < 0.99*f.Epsilon {
				t.Errorf("claim %v, filter %v, budget %v", f.Claim.Epsilon, f.FilterEpsilon, f.Epsilon)
			}
			if claim, err := privacy.Account(f.Events, f.Delta); err != nil || claim.Epsilon != f.Claim.Epsilon ||
				len(f.Events) != 2 || f.Events[1].Count != int64(p.Rounds) {
				t.Errorf("events %v, claim %v, %v", f.Events, claim, err)
			}
			// A million units at a node, of the largest gradients, in the last round.
			sum := slices.Repeat([]int64{-1_000_000 * pipeline.DiscriminatorBound}, p.PerRound)
			answer := proto.Size(&conclavev1.WorkRequest{Attempt: 3000,
				Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: s.Name, Round: uint64(p.Rounds),
					Values: sum}}})
			if m := f.Leaving[3]; m.Name != "gradient sums" || m.Times != p.Rounds || m.Bytes < answer ||
				m.Bytes > answer+8+2*p.PerRound {
				t.Errorf("leaving %+v, a message has %d bytes", m, answer)
			}
			sent := proto.Size(asked(t, s, c.schema, p))
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
		"a table":                {wideText, "dpgan: {steps: 5}", ""},
		"images":                 {imageSchema, "dpgan: {steps: 5}", ""},
		"noise by hand":          {wideText, "dpgan: {steps: 5, noise: 20}", ""},
		"rate":                   {wideText, "dpgan: {rate: 2}", "run.yaml: dpgan.rate: 2 is not between"},
		"batch":                  {wideText, "dpgan: {batch: 5}", "dpgan.batch: 5 needs units"},
		"an unknown field":       {wideText, "dpgan: {step: 3}", `unknown field "step"`},
		"a nested unknown field": {wideText, "dpgan: {student: {rate: 3}}", `unknown field "rate"`},
		"cosines of a table": {wideText, "dpgan: {discriminator: {features: cosines}}",
			"run.yaml: dpgan.discriminator.features: cosines is for images only"},
		"too many weights": {wideText, "dpgan: {discriminator: {fourier: 100000}}",
			"dpgan.discriminator: a discriminator of more than 131072 weights"},
		"too large class shares": {wideText, "dpgan: {class_epsilon: 2}",
			"dpgan.class_epsilon: 2 leaves nothing of privacy.epsilon 1 for 100 steps"},
		"no class shares":         {wideText, "dpgan: {class_epsilon: 1e-14}", "dpgan.class_epsilon: 1e-14"},
		"too little noise":        {wideText, "dpgan: {steps: 1, noise: 0.5}", "run.yaml: dpgan.noise: 0.5"},
		"too little for all":      {wideText, "dpgan: {steps: 100, noise: 6}", "run.yaml: dpgan.noise: 6"},
		"noise that is not drawn": {wideText, "dpgan: {steps: 1, noise: 1e-9}", "noise"},
		"too much noise":          {wideText, "dpgan: {steps: 1, noise: 1e6}", "noise"},
	} {
		t.Run(name, func(t *testing.T) {
			text := replaced(t, good, "1000", "100") + "pipeline: dpgan\nwarm_start: {embed: 0}\n" + c.options + "\n"
			checkRefusal(t, map[string]string{"schema.yaml": c.schema, "run.yaml": text}, c.want)
		})
	}
}

func TestIdentityNamesTheOptionsOfDPGAN(t *testing.T) {
	schema := parsed(t, wideText)
	want := identity(dpganSpec(func(*runfile.Spec) {}), schema, false)
	for name, change := range map[string]func(*runfile.Spec){
		"pipeline":      func(s *runfile.Spec) { s.Pipeline = "gpate" },
		"steps":         func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Steps++ },
		"rate":          func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Rate = 0.11 },
		"clip":          func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Clip = 3 },
		"noise":         func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Noise = 30 },
		"class_epsilon": func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).ClassEpsilon *= 1.0000001 },
		"loss":          func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Discriminator.Loss = dpgan.KLWGAN },
		"fourier":       func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Discriminator.Fourier = 10 },
		"memory":        func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Discriminator.Memory = 0.5 },
		"generated":     func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Discriminator.Generated = 100 },
		"every":         func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Student.Every = 7 },
		"step size":     func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Student.StepSize = 0.0123 },
		"kept":          func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Student.Keep++ },
	} {
		if identity(dpganSpec(change), schema, false) == want {
			t.Errorf("%s does not change the identity", name)
		}
	}
	if identity(dpganSpec(func(*runfile.Spec) {}), schema, true) == want {
		t.Error("the baseline has the identity of the run")
	}
	for name, change := range map[string]func(*runfile.Spec){
		"what is chosen": func(s *runfile.Spec) {
			*runfile.Section[dpgan.Options](s) = runfile.Section[dpgan.Options](s).ChosenFor(encode.New(schema))
		},
		"a batch of the same rate": func(s *runfile.Spec) {
			runfile.Section[dpgan.Options](s).Rate, runfile.Section[dpgan.Options](s).Batch,
				runfile.Section[dpgan.Options](s).Units = 0, 20, 200
		},
		"an option of another":       func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Records++ },
		"the rows that are released": func(s *runfile.Spec) { s.Release.Rows++ },
	} {
		if identity(dpganSpec(change), schema, false) != want {
			t.Errorf("%s changes the identity", name)
		}
	}
}
