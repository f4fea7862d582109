package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const wideText, imageSchema = partitiontest.Wide, partitiontest.Bars

func parsed(t *testing.T, text string) *partition.Schema {
	t.Helper()
	schema := partitiontest.Schema(t, text)
	return schema
}

// gpateSpec is a run of G-PATE with its rounds set by hand.
func gpateSpec(change func(*runfile.Spec)) *runfile.Spec {
	s := runfile.DefaultSpec()
	s.Name, s.Pipeline, s.Teachers = "g1", "gpate", 400
	s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-5
	runfile.Section[gpate.Options](s).Rounds, runfile.Section[gpate.Options](s).Records,
		runfile.Section[gpate.Options](s).ClassEpsilon, runfile.Section[gpate.Options](s).Bins = 5, 12, 0.05, 10
	change(s)
	return s
}

// votesOnGradients makes a run one of votes.
func votesOnGradients(answers gpate.Answers, mechanism string) func(*runfile.Spec) {
	return func(s *runfile.Spec) {
		runfile.Section[gpate.Options](s).Answers, runfile.Section[gpate.Options](s).Mechanism,
			runfile.Section[gpate.Options](s).Directions = answers, mechanism, 3
	}
}

// What is calibrated fits the budget and no release more does: a sum for each round, a
// vote for each record, direction and round.
func TestTheGPATEPlanUsesTheBudgetAndNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*runfile.Spec)
		each   int64 // releases that are charged for a round
		kind   privacy.Kind
	}{
		"sum": {func(*runfile.Spec) {}, 1, privacy.Gaussian},
		"projected sum": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Directions = 2
		}, 1, privacy.Gaussian},
		"histogram":        {votesOnGradients(gpate.Histogram, "gnmax"), 36, privacy.GNMax},
		"winner":           {votesOnGradients(gpate.Winner, "gnmax"), 36, privacy.GNMax},
		"confident winner": {votesOnGradients(gpate.Winner, "confident-gnmax"), 36, privacy.ConfidentGNMax},
		"confident counts": {votesOnGradients(gpate.Histogram, "confident-gnmax"), 36, privacy.ConfidentGNMax},
		"chosen directions": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Answers = gpate.Winner
		}, 0, privacy.ConfidentGNMax},
		"everything chosen": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Rounds, runfile.Section[gpate.Options](s).Records = 0, 0
		}, 1, privacy.Gaussian},
		"one record, 1 step": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Rounds, runfile.Section[gpate.Options](s).Records,
				runfile.Section[gpate.Options](s).Directions = 1, 1, 1
		}, 1, privacy.Gaussian},
	} {
		for _, epsilon := range []float64{0.3, 1, 10} {
			t.Run(fmt.Sprintf("%s, epsilon %g", name, epsilon), func(t *testing.T) {
				s := gpateSpec(c.change)
				s.Privacy.Epsilon = epsilon
				schema := parsed(t, wideText)
				p, err := NewPlan(s, schema)
				testkit.Must(t, err)
				o := runfile.Section[gpate.Options](s).ChosenFor(encode.New(schema))
				if p.Rounds != o.Rounds || p.PerRound != o.Records*o.Directions || p.Queries != p.Rounds*p.PerRound ||
					p.Classes != 2 || p.ClassShareEpsilon != 0.05 {
					t.Errorf("plan %+v of %d rounds of %d records in %d directions", p, o.Rounds, o.Records,
						o.Directions)
				}
				if (p.Training.Variant == privacy.Histogram) != (o.Answers == gpate.Histogram) ||
					p.Sums() != (o.Answers == gpate.Sum) {
					t.Errorf("mechanism %v", p.Training)
				}
				each := c.each
				if each == 0 {
					each = int64(p.PerRound)
				}
				if got := p.Releases(p.Queries); got != int64(p.Rounds)*each || p.Releases(p.PerRound) != each ||
					p.Releases(0) != 0 || p.Releases(1) != 1 {
					t.Errorf("%d releases in %d rounds, want %d each", got, p.Rounds, each)
				}
				budget := privacy.Budget{Epsilon: epsilon, Delta: 1e-5}
				spent := p.First().Events()
				for range p.Rounds { // as the ledger charges it
					round := p.Training.Worst(each)
					if round[0].Kind != c.kind || round[0].Count+round[0].Asked != each {
						t.Fatalf("a round costs %+v", round)
					}
					claim, err := budget.Admit(spent, round)
					if err != nil {
						t.Fatalf("the plan does not fit: %v", err)
					}
					if claim.Epsilon > epsilon {
						t.Errorf("claim %v is above the budget %v", claim.Epsilon, epsilon)
					}
					spent = privacy.Merge(append(spent, round...))
				}
				if p.Noise() > privacy.MinSigma || p.Sums() {
					if _, err := budget.Admit(spent, p.Training.Worst(1)); !errors.Is(err, privacy.ErrOverBudget) {
						t.Errorf("one release more was admitted (%v); the plan has too much noise", err)
					}
				}
			})
		}
	}
}

// What is set by hand is what is planned.
func TestTheGPATEPlanFollowsTheSpec(t *testing.T) {
	schema := parsed(t, wideText)
	plan := func(change func(*runfile.Spec)) privacy.Planned {
		t.Helper()
		p, err := NewPlan(gpateSpec(change), schema)
		testkit.Must(t, err)
		return p.Training
	}
	if m := plan(func(s *runfile.Spec) {
		runfile.Section[gpate.Options](s).Noise = 7.5
	}); m.Mechanism.Kind != privacy.Gaussian || m.Mechanism.Sigma != 7.5 || m.Variant != "" {
		t.Errorf("sums by hand: %v", m)
	}
	if m := plan(func(s *runfile.Spec) {
		votesOnGradients(gpate.Histogram, "gnmax")(s)
		runfile.Section[gpate.Options](s).Noise = 90
	}); m.Mechanism.Kind != privacy.GNMax || m.Mechanism.Sigma != 90 || m.Variant != privacy.Histogram {
		t.Errorf("counts by hand: %v", m)
	}
	m := plan(func(s *runfile.Spec) {
		votesOnGradients(gpate.Winner, "confident-gnmax")(s)
		runfile.Section[gpate.Options](s).Noise, runfile.Section[gpate.Options](s).Threshold,
			runfile.Section[gpate.Options](s).ThresholdNoise = 80, 0.75, 2
	})
	if m.Mechanism != (privacy.Event{Kind: privacy.ConfidentGNMax, Sigma2: 80, Sigma1: 160, Threshold: 300}) ||
		m.Variant != "" {
		t.Errorf("confident winners by hand: %v", m)
	}
}

// What cannot be paid for or drawn is refused, by the option's name, before a run is open.
func TestGPATEPlansThatCannotBeAskedAreRefused(t *testing.T) {
	schema := parsed(t, wideText)
	votes := votesOnGradients(gpate.Histogram, "gnmax")
	for name, c := range map[string]struct {
		change func(*runfile.Spec)
		want   []string // nothing: the plan works
	}{
		"noise for a part of the rounds": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Noise, runfile.Section[gpate.Options](s).Rounds = 6, 1000
		}, nil},
		"too little noise of sums": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Noise = 0.5
		}, []string{"gpate.noise: 0.5 is too dear for one round", "set gpate.noise otherwise"}},
		"hardly any noise of sums": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Noise = 1e-9
		}, []string{"gradients", "set gpate.noise otherwise"}},
		"too much noise of sums": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Noise = 1e9
		}, []string{"gradients", "set gpate.noise otherwise"}},
		"too little noise of votes": {func(s *runfile.Spec) {
			votes(s)
			runfile.Section[gpate.Options](s).Noise = 2
		}, []string{"gpate.noise: 2 is too dear for one round of 36 queries"}},
		"noise below integers": {func(s *runfile.Spec) {
			votes(s)
			runfile.Section[gpate.Options](s).Noise = 0.5
		}, []string{"gpate.noise: 0.5 is below 1"}},
		"too much noise of votes": {func(s *runfile.Spec) {
			votes(s)
			runfile.Section[gpate.Options](s).Noise = 1e12
		}, []string{"gradients", "gpate.noise"}},
		"no noise on the threshold": {func(s *runfile.Spec) {
			votesOnGradients(gpate.Winner, "confident-gnmax")(s)
			runfile.Section[gpate.Options](s).Noise, runfile.Section[gpate.Options](s).ThresholdNoise = 100, 1e-4
		}, []string{"sigma", "gpate.noise"}},
		"class shares take all": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).ClassEpsilon = 1
		}, []string{"gpate.class_epsilon: 1", "privacy.epsilon 1"}},
		"class shares take more": {func(s *runfile.Spec) {
			votes(s)
			runfile.Section[gpate.Options](s).ClassEpsilon = 1.5
		}, []string{"gpate.class_epsilon: 1.5", "privacy.epsilon 1"}},
		"with noise by hand": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Noise, runfile.Section[gpate.Options](s).ClassEpsilon = 50, 3
		}, []string{"gpate.class_epsilon: 3"}},
		"tiny class shares": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).ClassEpsilon = 1e-9
		}, []string{"gpate.class_epsilon: 1e-09", "raise either"}},
		"too many directions": {func(s *runfile.Spec) {
			runfile.Section[gpate.Options](s).Directions = 7
		}, []string{"gpate.directions: 7 are more than the 6 features"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewPlan(gpateSpec(c.change), schema)
			if (err != nil) != (c.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestTheGPATEPlanIsWhatTheAggregatorIsTold(t *testing.T) {
	schema := parsed(t, wideText)
	s := gpateSpec(func(s *runfile.Spec) {
		runfile.Section[gpate.Options](s).Quorum, runfile.Section[gpate.Options](s).Deadline = 0.8, 77
	})
	p, err := NewPlan(s, schema)
	testkit.Must(t, err)
	want := &conclavev1.RunSpec{
		Name: "g1", Dataset: "data", Pipeline: "gpate", SchemaSha256: schema.SHA256, Epsilon: 1, Delta: 1e-5,
		Unit:      "record",
		Guarantee: "data-independent", Teachers: 400, Quorum: 0.8, DeadlineSeconds: 77,
		Plan: []*conclavev1.Planned{
			{Kind: "class-counts", Count: 1, Mechanism: &conclavev1.PrivacyEvent{Kind: "laplace", Epsilon: 0.05}},
			{Kind: "gradient-sums", Count: uint64(p.Rounds),
				Mechanism: &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: p.Multiplier(), Sensitivity: 1}},
		},
	}
	if got := RunSpec(p, s, schema, "data", false); !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// A forecast of G-PATE names what is charged and what travels, of tables and images.
func TestForecastOfGPATE(t *testing.T) {
	images := parsed(t, imageSchema)
	few := func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Teacher.Cosines = 2 }
	for name, c := range map[string]struct {
		schema  *partition.Schema
		change  func(*runfile.Spec)
		message string
	}{
		"a table":            {parsed(t, wideText), func(*runfile.Spec) {}, "gradients"},
		"votes on a table":   {parsed(t, wideText), votesOnGradients(gpate.Histogram, "gnmax"), "votes"},
		"winners of a table": {parsed(t, wideText), votesOnGradients(gpate.Winner, "confident-gnmax"), "votes"},
		"images":             {images, few, "gradients"},
		"votes on images": {images, func(s *runfile.Spec) {
			few(s)
			votesOnGradients(gpate.Winner, "gnmax")(s)
		}, "votes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := gpateSpec(c.change)
			node := Node{Dataset: "d", Site: "north", Node: "1", Teachers: 150}
			f, err := NewForecast(s, c.schema, node)
			testkit.Must(t, err)
			p, err := NewPlan(s, c.schema)
			testkit.Must(t, err)
			if f.Rounds != p.Rounds || f.Queries != p.Queries || f.Admitted < int64(p.Queries) ||
				f.Admitted > int64(p.Queries+p.PerRound) {
				t.Errorf("%d rounds of %d queries, %d admitted; planned %d and %d", f.Rounds, f.Queries, f.Admitted,
					p.Rounds, p.Queries)
			}
			if f.Claim.Epsilon > f.FilterEpsilon || f.FilterEpsilon > f.Epsilon || f.FilterEpsilon < 0.99*f.Epsilon {
				t.Errorf("claim %v, filter %v, budget %v", f.Claim.Epsilon, f.FilterEpsilon, f.Epsilon)
			}
			if asked := f.Events[1].Count + f.Events[1].Asked; asked != p.Releases(p.Queries) {
				t.Errorf("%d releases are charged, %d planned", asked, p.Releases(p.Queries))
			}
			if (f.Unanimous > 0) != (c.message == "votes") {
				t.Errorf("%d teachers must agree", f.Unanimous)
			}
			e := encode.New(c.schema)
			o := runfile.Section[gpate.Options](s).ChosenFor(e)
			answer := &conclavev1.WorkRequest{Attempt: 3}
			if c.message == "votes" { // four bits for ten bins
				answer.Message = &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
					Run: s.Name, Round: 1, Teachers: 150, Queries: uint32(p.PerRound),
					Packed: make([]byte, 150*((p.PerRound+1)/2)),
				}}
			} else {
				answer.Message = &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: s.Name, Round: 1,
					Values: slices.Repeat([]int64{-150 * gpate.Bound}, p.PerRound)}}
			}
			m := f.Leaving[3]
			if m.Name != c.message || m.Times != p.Rounds || m.Bytes < proto.Size(answer) ||
				m.Bytes > proto.Size(answer)+8 {
				t.Errorf("leaving %+v, a message has %d bytes", m, proto.Size(answer))
			}
			if least := 4 * e.Width() * (o.Records + o.Teacher.Training); f.Arriving[0].Bytes < least ||
				f.Arriving[0].Bytes > least+1000 {
				t.Errorf("rounds of %d bytes hold %d bytes of records", f.Arriving[0].Bytes, least)
			}
		})
	}
	// Noise for a part of the rounds: what is forecast ends with the budget.
	f, err := NewForecast(gpateSpec(func(s *runfile.Spec) {
		runfile.Section[gpate.Options](s).Noise, runfile.Section[gpate.Options](s).Rounds = 6, 1000
	}), parsed(t, wideText), Node{Teachers: 1})
	testkit.Must(t, err)
	if n := f.Events[1].Count; n >= 1000 || n < 1 || f.Admitted != n*12*6 || f.Claim.Epsilon > 1 {
		t.Errorf("%d sums are charged, %d numbers admitted, claim %v", n, f.Admitted, f.Claim.Epsilon)
	}
}

func TestIdentityNamesThePipelineAndItsOptions(t *testing.T) {
	schema := parsed(t, wideText)
	want := identity(gpateSpec(func(*runfile.Spec) {}), schema, false)
	for name, change := range map[string]func(*runfile.Spec){
		"pipeline": func(s *runfile.Spec) { s.Pipeline = "pategan" },
		"records":  func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Records++ },
		"answers":  func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Answers = gpate.Winner },
		"step":     func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Student.Step = 0.12345 },
		"clip":     func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Clip *= 1.0000001 },
		"teacher":  func(s *runfile.Spec) { runfile.Section[gpate.Options](s).Teacher.Batch++ },
	} {
		if identity(gpateSpec(change), schema, false) == want {
			t.Errorf("%s does not change the identity", name)
		}
	}
	if identity(gpateSpec(func(s *runfile.Spec) {
		*runfile.Section[gpate.Options](s) = runfile.Section[gpate.Options](s).ChosenFor(encode.New(schema))
	}), schema, false) != want {
		t.Error("what is chosen changes the identity where it is written out")
	}
	if identity(gpateSpec(func(s *runfile.Spec) {
		runfile.Section[pategan.Options](s).Queries++
	}), schema, false) != want {
		t.Error("an option of another pipeline changes the identity")
	}
}

// Mistakes in the gpate part of a run.yaml are found by Load or Prepare, before anything
// is asked.
func TestGPATESpecsThatCannotWork(t *testing.T) {
	oddImages := strings.Replace(strings.Replace(imageSchema, "height: 4, width: 4", "height: 7, width: 3", 1),
		"repeat: 16", "repeat: 21", 1)
	two := strings.Replace(strings.Replace(imageSchema, "channels: 1", "channels: 2", 1), "repeat: 16", "repeat: 32", 1)
	for name, c := range map[string]struct {
		schema, options string
		want            string // nothing: it works
	}{
		"a table": {wideText, "gpate: {directions: 6, records: 4}", ""},
		"images":  {imageSchema, "gpate: {teacher: {cosines: 3}}", ""},
		"k above the dimension": {wideText, "gpate: {answers: winner, directions: 7}",
			"run.yaml: gpate.directions: 7 are more than the 6 features"},
		"k above the coefficients": {imageSchema, "gpate: {answers: winner, directions: 5, teacher: {cosines: 2}}",
			"run.yaml: gpate.directions: 5 are more than the 4 features"},
		"one bin":             {wideText, "gpate: {bins: 1}", "run.yaml: gpate.bins: 1 is not between 2 and 256"},
		"257 bins":            {wideText, "gpate: {bins: 257}", "gpate.bins: 257 is not"},
		"no clip":             {wideText, "gpate: {clip: 0}", "gpate.clip: 0 is not between 1e-30 and 1e+30"},
		"a clip that is none": {wideText, "gpate: {clip: .nan}", "gpate.clip: NaN"},
		"no threshold":        {wideText, "gpate: {threshold: 0}", "gpate.threshold: 0 is not a share of the teachers"},
		"a threshold above all": {wideText, "gpate: {threshold: 1.5}",
			"gpate.threshold: 1.5 is not a share of the teachers"},
		"answers":                   {wideText, "gpate: {answers: mean}", `gpate.answers: "mean" is not one of`},
		"lnmax":                     {wideText, "gpate: {mechanism: lnmax}", `gpate.mechanism: "lnmax" is not one of`},
		"an unknown field":          {wideText, "gpate: {direction: 3}", `unknown field "direction"`},
		"a teacher's unknown field": {wideText, "gpate: {teacher: {layers: 3}}", `unknown field "layers"`},
		"too many votes": {wideText, "gpate: {answers: winner, directions: 6, records: 11000}",
			"gpate.records: 11000 with 6 directions are 66000 votes a round"},
		"too many counts": {wideText, "gpate: {answers: winner, directions: 6, records: 3000, bins: 10}",
			"gpate.records: 3000 with 6 directions of 10 bins are 180000 counts"},
		"too little noise":       {wideText, "gpate: {noise: 0.01}", "run.yaml: gpate.noise: 0.01 is too dear"},
		"too large class shares": {wideText, "gpate: {class_epsilon: 2}", "gpate.class_epsilon: 2"},
		"convolutions of a table": {wideText, "gpate: {teacher: {model: convolution, features: plain}}",
			"gpate.teacher.model: convolution is for images only"},
		"cosines of a table": {wideText, "gpate: {teacher: {features: cosines}}",
			"gpate.teacher.features: cosines is for images only"},
		"more cosines than pixels": {imageSchema, "gpate: {teacher: {cosines: 5}}",
			"gpate.teacher.cosines: 5 frequencies are more than the pixels of an image's side, 4"},
		"images of a size": {oddImages, "gpate: {teacher: {cosines: 2}, student: {generator: convolution}}",
			"gpate.student: a generator of kind convolution cannot make images of 7 x 3"},
		"images of two channels": {two, "gpate: {teacher: {cosines: 2}}", "images of 2 channels cannot be shown"},
		"pategan does not do images": {imageSchema, "pipeline: pategan",
			"images are not available with pategan; use embed, dpgan or gpate"},
		"test images of a size": {imageSchema, "gpate: {teacher: {cosines: 2}}\nevaluate: {test: other-images.idx}",
			"other-images.idx"},
	} {
		t.Run(name, func(t *testing.T) {
			text := replaced(t, good, "1000", "100") + c.options + "\n"
			if !strings.Contains(c.options, "pipeline") {
				text += "pipeline: gpate\n"
			}
			files := map[string]string{"schema.yaml": c.schema, "run.yaml": text}
			x := &idx.Images{Shape: partition.Image{Height: 8, Width: 8, Channels: 1}, Pixels: make([]byte, 640),
				Classes: make([]int, 10)}
			images, labels, err := idx.Encode(x, false)
			testkit.Must(t, err)
			files["other-images.idx"], files["other-labels.idx"] = string(images), string(labels)
			checkRefusal(t, files, c.want)
		})
	}
}
