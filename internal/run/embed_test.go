package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// embedSpec is a run of embedding matching with its features set by hand.
func embedSpec(change func(*runfile.Spec)) *runfile.Spec {
	s := runfile.DefaultSpec()
	s.Name, s.Pipeline, s.Teachers = "e1", "embed", 40
	s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-5
	runfile.Section[embed.Options](s).Features.Waves, runfile.Section[embed.Options](s).Features.Bins = 30, 6
	change(s)
	return s
}

// unlabelled and single are schemas without a label, and of one column.
const (
	unlabelled = "name: u\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: c, kind: " +
		"categorical, categories: [x, y, z]}\n"
	single = "name: s\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n"
)

// One sum uses the budget, and a thousandth less of noise does not fit.
func TestTheEmbedPlanUsesTheBudgetAndNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		schema  string
		change  func(*runfile.Spec)
		classes int
	}{
		"a table":    {wideText, func(*runfile.Spec) {}, 2},
		"no label":   {unlabelled, func(*runfile.Spec) {}, 1},
		"one column": {single, func(*runfile.Spec) {}, 1},
		"images":     {imageSchema, func(*runfile.Spec) {}, 2},
		"everything chosen": {wideText, func(s *runfile.Spec) {
			*runfile.Section[embed.Options](s) = embed.DefaultOptions()
		}, 2},
	} {
		for _, epsilon := range []float64{0.1, 1, 10} {
			s, schema := embedSpec(c.change), parsed(t, c.schema)
			s.Privacy.Epsilon = epsilon
			p, err := NewPlan(s, schema)
			if err != nil {
				t.Fatalf("%s, epsilon %v: %v", name, epsilon, err)
			}
			e := encode.New(schema)
			q, err := runfile.Section[embed.Options](s).ChosenFor(e, c.classes,
				p.Start.Planned.Mechanism.Sigma).Question(e, c.classes)
			testkit.Must(t, err)
			if p.Rounds != 0 || p.Queries != 0 || p.Classes != c.classes || p.ClassShareEpsilon != 0 ||
				p.Start.Entries != q.Entries || p.Sampled() || p.Filter() != "" {
				t.Errorf("%s: plan %+v", name, p)
			}
			budget, sum := privacy.Budget{Epsilon: epsilon, Delta: 1e-5}, p.Planned().Events()
			claim, err := budget.Admit(nil, sum)
			if err != nil || claim.Epsilon > epsilon || claim.Epsilon < 0.999*epsilon || len(sum) != 1 ||
				sum[0].Count != 1 {
				t.Errorf("%s, epsilon %v: %v costs %v, %v", name, epsilon, sum, claim.Epsilon, err)
			}
			sum[0].Sigma *= 0.999
			if _, err := budget.Admit(nil, sum); !errors.Is(err, privacy.ErrOverBudget) {
				t.Errorf("%s, epsilon %v: less noise fits as well: %v", name, epsilon, err)
			}
			spec := RunSpec(p, s, schema, "d", false)
			if len(spec.Plan) != 1 || spec.Plan[0].Kind != runspec.Embedding || spec.Plan[0].Count != 1 ||
				spec.Plan[0].Mechanism.Sigma != p.Start.Planned.Mechanism.Sigma || spec.Filter != "" ||
				spec.Pipeline != "embed" || spec.Quorum != 0.9 || spec.DeadlineSeconds != 60 {
				t.Errorf("%s: the aggregator is told %v", name, spec)
			}
		}
	}
	// Noise that is set is what is planned.
	p, err := NewPlan(embedSpec(func(s *runfile.Spec) {
		runfile.Section[embed.Options](s).Noise = 7.25
	}), parsed(t, wideText))
	if err != nil || p.Start.Planned.Mechanism.Sigma != 7.25 {
		t.Errorf("plan %+v, %v", p, err)
	}
}

// Part of the budget buys the start, the rest all that a GAN asks, and no more.
func TestWarmStartsArePlannedWithinTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	schema := parsed(t, wideText)
	for name, spec := range map[string]*runfile.Spec{
		"pategan":        voteSpec(),
		"gpate":          gpateSpec(func(*runfile.Spec) {}),
		"gpate by votes": gpateSpec(votesOnGradients(gpate.Histogram, "gnmax")),
		"dpgan":          dpganSpec(func(*runfile.Spec) {}),
	} {
		for _, share := range []float64{0.05, 0.7} {
			t.Run(fmt.Sprintf("%s, share %v", name, share), func(t *testing.T) {
				s := embedSpec(func(*runfile.Spec) {})
				s.Pipeline, s.Teachers, s.Sections[spec.Pipeline] = spec.Pipeline, 400, spec.Sections[spec.Pipeline]
				runfile.Section[embed.WarmStart](s).Embed = share
				p, err := NewPlan(s, schema)
				testkit.Must(t, err)
				if p.Start == nil || p.ClassShareEpsilon != 0 || p.Rounds < 1 {
					t.Fatalf("plan %+v", p)
				}
				budget := privacy.Budget{Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Filter: p.Filter()}
				alone, err := privacy.Account(p.First().Events(), budget.Delta)
				if err != nil || alone.Epsilon > share*budget.Epsilon || alone.Epsilon < 0.999*share*budget.Epsilon {
					t.Errorf("by itself the start costs %v of %v, %v", alone.Epsilon, share*budget.Epsilon, err)
				}
				all := p.Planned().Events()
				if p.Sampled() {
					if _, err := p.Planned().Check(budget); err != nil {
						t.Errorf("the plan does not fit: %v", err)
					}
				} else if _, err := budget.Admit(p.First().Events(), p.Planned()[1:].Events()); err != nil {
					t.Errorf("the plan does not fit: %v", err)
				}
				claim, err := privacy.Account(all, budget.Delta)
				if err != nil || claim.Epsilon > budget.Epsilon || claim.Epsilon < 0.97*budget.Epsilon {
					t.Errorf("all of it costs %v of %v, %v", claim.Epsilon, budget.Epsilon, err)
				}
				if told := RunSpec(p, s, schema, "d", false); told.Plan[0].Kind != runspec.Embedding ||
					told.Plan[0].Mechanism.Sigma != p.Start.Planned.Mechanism.Sigma {
					t.Errorf("the aggregator is told %v", told)
				}
				// Without a share the class counts are asked, as before.
				runfile.Section[embed.WarmStart](s).Embed = 0
				if p, err := NewPlan(s, schema); err != nil || p.Start != nil || !(p.ClassShareEpsilon > 0) {
					t.Errorf("share 0: plan %+v, %v", p, err)
				}
			})
		}
	}
}

// Mistakes are found by Load or Prepare, by the option's name and before anything is asked.
func TestEmbedSpecsThatCannotWork(t *testing.T) {
	const tiny = "privacy: {epsilon: 1e-9, delta: 1e-12}\n"
	for name, c := range map[string]struct {
		schema, options string
		want            string // nothing: it works
	}{
		"a table":       {wideText, "pipeline: embed", ""},
		"images":        {imageSchema, "pipeline: embed", ""},
		"no label":      {unlabelled, "pipeline: embed", ""},
		"one column":    {single, "pipeline: embed", ""},
		"noise by hand": {wideText, "pipeline: embed\nembed: {noise: 5}", ""},
		"a share of 0":  {wideText, "pipeline: embed\nwarm_start: {embed: 0}", ""},
		"too little noise": {wideText, "pipeline: embed\nembed: {noise: 3.7}",
			"run.yaml: embed.noise: 3.7 is too little"},
		"hardly any noise": {wideText, "pipeline: embed\nembed: {noise: 1e-9}", "embed.noise: 1e-09 is too little"},
		"too much noise": {wideText, "pipeline: embed\nembed: {noise: 1e10}",
			"run.yaml: embed.noise: 1e+10 is too much"},
		"noise NaN":        {wideText, "pipeline: embed\nembed: {noise: .nan}", "run.yaml: embed.noise: NaN"},
		"an unknown field": {wideText, "pipeline: embed\nembed: {step: 3}", `unknown field "step"`},
		"a nested one":     {wideText, "pipeline: embed\nembed: {fit: {rate: 3}}", `unknown field "rate"`},
		"columns of images": {imageSchema, "pipeline: embed\nembed: {features: {columns: 1}}",
			"run.yaml: embed.features: columns and pairs are for tables only"},
		"nothing to match": {wideText, "pipeline: embed\nembed: {features: {columns: 0, pairs: 0, fourier: 0}}",
			"are all 0"},
		"too many": {wideText, "pipeline: embed\nembed: {features: {waves: 65536}}",
			"embed.features: embedding: part"},
		"a start of its own": {wideText, "pipeline: embed\nwarm_start: {embed: 0.5}", "warm_start.embed: 0.5"},
		"pategan":            {wideText, "pipeline: pategan\nwarm_start: {embed: 0.3}", ""},
		"gpate":              {wideText, "pipeline: gpate\nwarm_start: {embed: 0.3}", ""},
		"dpgan":              {wideText, "pipeline: dpgan\ndpgan: {steps: 5, rate: 1}\nwarm_start: {embed: 0.3}", ""},
		"a share of all": {wideText, "pipeline: pategan\nwarm_start: {embed: 1}",
			"warm_start.embed: 1 is not a share"},
		"more than all": {wideText, "pipeline: pategan\nwarm_start: {embed: 1.5}",
			"warm_start.embed: 1.5 is not a share"},
		"a share below 0": {wideText, "pipeline: pategan\nwarm_start: {embed: -0.1}",
			"warm_start.embed: -0.1 is not a share"},
		"an infinite share": {wideText, "pipeline: pategan\nwarm_start: {embed: .inf}",
			"warm_start.embed: +Inf is not a share"},
		"options of a start": {wideText,
			"pipeline: pategan\nwarm_start: {embed: 0.3}\nembed: {features: {columns: 0, pairs: 0, fourier: 0}}",
			"warm_start.embed: embed.features: columns, pairs and fourier are all 0"},
		"wrong options": {wideText, "pipeline: pategan\nwarm_start: {embed: 0.3}\nembed: {fit: {steps: -1}}",
			"run.yaml: embed.fit.steps: -1"},
		"a tiny share": {wideText, "pipeline: pategan\nwarm_start: {embed: 1e-9}\n" + tiny, "warm_start.embed: "},
		"tiny epsilon": {wideText, "pipeline: embed\n" + tiny, "raise privacy.epsilon"},
		"nearly all of gpate": {wideText, "pipeline: gpate\nwarm_start: {embed: 0.99999999}",
			"or lower warm_start.embed"},
		"nearly all of dpgan": {wideText,
			"pipeline: dpgan\ndpgan: {steps: 5, rate: 1}\nwarm_start: {embed: 0.9999999999}", "warm_start.embed"},
		"tiny epsilon of gpate": {wideText, "pipeline: gpate\nwarm_start: {embed: 0.5}\n" + tiny, "warm_start.embed: "},
		"tiny epsilon of dpgan": {wideText,
			"pipeline: dpgan\ndpgan: {steps: 5, rate: 1}\nwarm_start: {embed: 0.5}\n" + tiny, "warm_start.embed: "},
	} {
		t.Run(name, func(t *testing.T) {
			text := replaced(t, good, "1000", "100") + c.options + "\n"
			if strings.Contains(c.options, tiny) {
				text = strings.Replace(text, "privacy: {epsilon: 1, delta: 1e-5}\n", "", 1)
			}
			checkRefusal(t, map[string]string{"schema.yaml": c.schema, "run.yaml": text}, c.want)
		})
	}
}

// A run that begins with an embedding is forecast with it, in place of the class counts.
func TestForecastOfEmbeddings(t *testing.T) {
	for name, c := range map[string]struct {
		spec   *runfile.Spec
		schema string
		after  string // the answers of later rounds
	}{
		"embed":           {embedSpec(func(*runfile.Spec) {}), wideText, ""},
		"embed of images": {embedSpec(func(*runfile.Spec) {}), imageSchema, ""},
		"noise by hand": {embedSpec(func(s *runfile.Spec) {
			runfile.Section[embed.Options](s).Noise = 300
		}), unlabelled, ""},
		"gpate": {gpateSpec(func(s *runfile.Spec) {
			runfile.Section[embed.WarmStart](s).Embed = 0.3
		}), wideText, "gradients"},
		"dpgan": {dpganSpec(func(s *runfile.Spec) {
			runfile.Section[embed.WarmStart](s).Embed = 0.3
		}), imageSchema, "gradient sums"},
		"pategan": {embedSpec(func(s *runfile.Spec) {
			s.Pipeline, s.Teachers, runfile.Section[embed.WarmStart](s).Embed = "pategan", 400, 0.2
		}), wideText, "votes"},
	} {
		t.Run(name, func(t *testing.T) {
			schema := parsed(t, c.schema)
			f, err := NewForecast(c.spec, schema, Node{Dataset: "d", Site: "north", Node: "1", Teachers: 15})
			testkit.Must(t, err)
			p, err := NewPlan(c.spec, schema)
			testkit.Must(t, err)
			if f.Rounds != p.Rounds || f.Queries != p.Queries || f.Embedding != p.Start.Entries ||
				f.Events[0] != p.First().Events()[0] || (len(f.Events) > 1) != (c.after != "") {
				t.Errorf("forecast %+v of plan %+v", f, p)
			}
			if claim, err := privacy.Account(f.Events, f.Delta); err != nil || claim.Epsilon != f.Claim.Epsilon ||
				!(f.Claim.Epsilon <= f.Epsilon) || !(f.FilterEpsilon <= f.Epsilon) {
				t.Errorf("claim %v, filter %v, budget %v, %v", f.Claim.Epsilon, f.FilterEpsilon, f.Epsilon, err)
			}
			var names []string
			for _, m := range f.Leaving {
				names = append(names, m.Name)
				if strings.Contains(m.Content, "how many units") {
					t.Errorf("class counts are forecast: %+v", m)
				}
			}
			want := []string{"hello", "permit", "embedding sum", c.after, "refusal"}
			if want = slices.DeleteFunc(want, func(s string) bool { return s == "" }); !slices.Equal(names, want) {
				t.Errorf("leaving %v, want %v", names, want)
			}
			// A million units at a node, of the largest features.
			sum := slices.Repeat([]int64{-1_000_000 * embed.Bound(p.Start.Planned.Mechanism.Sigma)}, p.Start.Entries)
			answer := proto.Size(&conclavev1.WorkRequest{Attempt: 3,
				Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: c.spec.Name, Values: sum}}})
			if m := f.Leaving[2]; m.Times != 1 || m.Bytes < answer || m.Bytes > answer+16+2*p.Start.Entries ||
				!strings.Contains(m.Content, fmt.Sprint(p.Start.Entries)) {
				t.Errorf("leaving %+v, a message has %d bytes", m, answer)
			}
			sent := proto.Size(asked(t, c.spec, schema, &plan.Plan{Start: p.Start}))
			if m := f.Arriving[0]; m.Times != 1 || m.Bytes < sent || m.Bytes > sent+8 {
				t.Errorf("arriving %+v, a message has %d bytes", m, sent)
			}
			if later := len(f.Arriving) == 2 && f.Arriving[1].Times == p.Rounds; later != (c.after != "") {
				t.Errorf("arriving %+v", f.Arriving)
			}
		})
	}
}

// A checkpoint is of its options, and of its start's.
func TestIdentityNamesTheOptionsOfEmbeddings(t *testing.T) {
	schema := parsed(t, wideText)
	of := func(s *runfile.Spec) string { return identity(s, schema, false) }
	changes := map[string]func(*runfile.Spec){
		"waves":   func(s *runfile.Spec) { runfile.Section[embed.Options](s).Features.Waves++ },
		"columns": func(s *runfile.Spec) { runfile.Section[embed.Options](s).Features.Columns = 0.123 },
		"scales":  func(s *runfile.Spec) { runfile.Section[embed.Options](s).Features.Scales = []float64{0.7} },
		"steps":   func(s *runfile.Spec) { runfile.Section[embed.Options](s).Fit.Steps = 123 },
		"batch":   func(s *runfile.Spec) { runfile.Section[embed.Options](s).Fit.Batch = 123 },
	}
	for _, pipeline := range []string{"embed", "pategan", "gpate", "dpgan"} {
		spec := func(change func(*runfile.Spec)) *runfile.Spec {
			return embedSpec(func(s *runfile.Spec) {
				if s.Pipeline = pipeline; pipeline != "embed" {
					runfile.Section[embed.WarmStart](s).Embed = 0.3
				}
				change(s)
			})
		}
		want := of(spec(func(*runfile.Spec) {}))
		for name, change := range changes {
			if of(spec(change)) == want {
				t.Errorf("%s: %s does not change the identity", pipeline, name)
			}
		}
		if of(spec(func(s *runfile.Spec) {
			*runfile.Section[embed.Options](s) = runfile.Section[embed.Options](s).ChosenFor(encode.New(schema), 2, 0)
		})) != want {
			t.Errorf("%s: what is chosen changes the identity", pipeline)
		}
		if pipeline == "embed" {
			if of(spec(func(s *runfile.Spec) { runfile.Section[embed.Options](s).Noise = 9 })) == want {
				t.Error("the noise does not change the identity")
			}
			continue
		}
		none := of(spec(func(s *runfile.Spec) { runfile.Section[embed.WarmStart](s).Embed = 0 }))
		if none == want || of(spec(func(s *runfile.Spec) {
			runfile.Section[embed.WarmStart](s).Embed = 0.31
		})) == want {
			t.Errorf("%s: the share does not change the identity", pipeline)
		}
		if of(spec(func(s *runfile.Spec) {
			runfile.Section[embed.WarmStart](s).Embed, runfile.Section[embed.Options](s).Features.Waves = 0, 77
		})) != none {
			t.Errorf("%s: features change the identity of a run without a start", pipeline)
		}
	}
}
