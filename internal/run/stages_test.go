package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Impossible options of stages are refused by name when the file is read.
func TestStagesThatCannotWork(t *testing.T) {
	const gan, boosted = good + "pipeline: pategan\n", good + "pipeline: pategan\npost: [pgb]\n"
	weighted := func(method string) string { return gan + "weights: " + method + "\n" }
	for text, want := range map[string]string{
		gan + "post: [mst]\n":      `post[0]: "mst" is not a stage; use pgb, drs or relabel`,
		gan + "post: [pgb, pgb]\n": `post[1]: "pgb" appears twice`,
		gan + "post: [drs, pgb]\n": "post: drs, pgb; pgb comes first",
		good + "pipeline: gpate\npost: [pgb]\n": "post: pgb: there is no discriminator after gpate: its " +
			"student learns from gradients",
		good + "pipeline: gpate\npost: [pgb, drs]\n": "post: pgb, drs: there is no discriminator after gpate",
		good + "pipeline: gpate\npost: [drs]\n":      "post: drs: there is no discriminator after gpate",
		good + "post: [drs]\n":                       "post: drs: there is no discriminator after marginals",
		good + "weights: discriminator\n": "weights: discriminator: there is no " +
			"discriminator after marginals",
		good + "pipeline: gpate\nweights: discriminator\n": "weights: discriminator: there is no " +
			"discriminator after gpate",
		boosted + "pgb: {candidates: 10}\n": "pgb.candidates: 10 are fewer than release.rows",
		boosted + "pategan: {student: {keep: 0}}\n": "post: pgb: no discriminators are stored: " +
			"pategan.student.keep is 0; use 10",
		weighted("discriminator") +
			"pategan: {student: {keep: 0}}\n": "weights: discriminator: no discriminators are stored: " +
			"pategan.student.keep is 0",
		good + "pipeline: dpgan\npost: [drs]\ndpgan: {student: {keep: 0}}\n": "post: drs: no discriminators are " +
			"stored: dpgan.student.keep is 0",
		boosted + "pategan: {student: {keep: -1}}\n": "pategan.student.keep: -1",

		boosted + "pgb: {share: 0}\n":            "pgb.share: 0 is not a share of the budget, above 0 and below 1",
		boosted + "pgb: {share: 1}\n":            "pgb.share: 1 is not a share",
		boosted + "pgb: {share: -0.2}\n":         "pgb.share: -0.2 is not a share",
		boosted + "pgb: {share: .nan}\n":         "pgb.share: NaN is not a share",
		boosted + "pgb: {candidates: -1}\n":      "pgb.candidates: -1 is not between 0 (chosen) and 2000000",
		boosted + "pgb: {candidates: 2000001}\n": "pgb.candidates: 2000001 is not",
		boosted + "pgb: {records: -1}\n":         "pgb.records: -1 is not between 0 (of the class counts) and 16777216",
		boosted + "pgb: {records: 16777217}\n":   "pgb.records: 16777217 is not",
		boosted + "pgb: {rounds: 0}\n":           "pgb.rounds: 0",
		boosted + "pgb: {rounds: -4}\n":          "pgb.rounds: -4",
		boosted + "pgb: {rate: -1}\n":            "pgb.rate: -1",
		boosted + "pgb: {rate: .inf}\n":          "pgb.rate: +Inf",
		boosted + "pgb: {epsilon: 1}\n":          `unknown field "epsilon"`,
		boosted + "pgb: {private: false}\n": "pgb.private: false is NOT PRIVATE, but the release is marked private; " +
			"set release.private: false",
		boosted + "pgb: {private: false}\nrelease: {private: false}\n": "pgb.private: false needs the real rows of " +
			"evaluate.train; set it",
		gan + "post: [drs]\ndrs: {percentile: 101}\n": "drs.percentile: 101",
		gan + "post: [drs]\ndrs: {percentile: -1}\n":  "drs.percentile: -1",
		gan + "post: [drs]\ndrs: {tries: 0}\n":        "drs.tries: 0",

		weighted("ji-elkan"): `weights: "ji-elkan" is not a method; use none, discriminator, ` +
			"logreg-noised, logreg-debiased, dp-mlp, logreg, mlp",
		weighted(`""`): `weights: "" is not a method`,
		weighted("logreg"): "weights: logreg is NOT PRIVATE, but the release is marked private; set release.private: " +
			"false for a comparison, or use logreg-debiased",
		weighted("mlp"): "weights: mlp is NOT PRIVATE",
		weighted("mlp") + "release: {private: false}\n": "weights: mlp needs the real rows of evaluate.train; " +
			"set it",
		weighted("logreg") + "release: {private: false}\n": "weights: logreg needs the real rows of evaluate.train",
		boosted + "weights: discriminator\n": "weights: discriminator: post: pgb changes the rows, or the labels, " +
			"that discriminators judged",
		gan + "post: [drs]\nweights: discriminator\n":     "weights: discriminator: post: drs changes the rows",
		gan + "post: [relabel]\nweights: discriminator\n": "weights: discriminator: post: relabel changes the rows",

		weighted("dp-mlp") + "weighting: {use: both}\n": `weighting.use: "both" is unknown; ` +
			"use column or resample",
		weighted("dp-mlp") + "weighting: {pool: 0}\n":             "weighting.pool: 0 is not between 1 and 100",
		weighted("dp-mlp") + "weighting: {pool: 101}\n":           "weighting.pool: 101 is not",
		weighted("dp-mlp") + "weighting: {share: 0}\n":            "weighting.share: 0 is not a share of the budget",
		weighted("dp-mlp") + "weighting: {share: 1.5}\n":          "weighting.share: 1.5 is not a share",
		weighted("dp-mlp") + "weighting: {share: .nan}\n":         "weighting.share: NaN is not a share",
		weighted("logreg-noised") + "weighting: {records: -1}\n":  "weighting.records: -1 is not between 0",
		weighted("logreg-noised") + "weighting: {clip: -1}\n":     "weighting.clip: -1 is not between 0 (chosen) and",
		weighted("logreg-noised") + "weighting: {clip: .nan}\n":   "weighting.clip: NaN is not",
		weighted("logreg-noised") + "weighting: {lambda: -1}\n":   "weighting.lambda: -1 is not between 0 (chosen) and",
		weighted("logreg-noised") + "weighting: {lambda: .inf}\n": "weighting.lambda: +Inf is not",
		weighted("logreg-noised") +
			"weighting: {noise: uniform}\n": `weighting.noise: "uniform" is unknown; ` +
			"use gaussian, laplace or norm-gamma",
		weighted("logreg-noised") +
			"weighting: {bound: 0.5}\n": "weighting.bound: 0.5 is not 0 (none) or between 1 and",
		weighted("logreg-noised") + "weighting: {bound: .nan}\n": "weighting.bound: NaN is not 0",
		weighted("dp-mlp") + "weighting: {mlp: {hidden: -1}}\n": "weighting.mlp.hidden: -1 is not " +
			"between 0 and 1024",
		weighted("dp-mlp") + "weighting: {mlp: {hidden: 1025}}\n": "weighting.mlp.hidden: 1025 is not",
		weighted("dp-mlp") + "weighting: {mlp: {rate: 0}}\n":      "weighting.mlp.rate: 0 is not above 0 and at most 1",
		weighted("dp-mlp") + "weighting: {mlp: {rate: 1.1}}\n":    "weighting.mlp.rate: 1.1 is not",
		weighted("dp-mlp") + "weighting: {mlp: {rate: .nan}}\n":   "weighting.mlp.rate: NaN is not",
		weighted("dp-mlp") + "weighting: {mlp: {steps: 0}}\n": "weighting.mlp.steps: 0 is not between " +
			"1 and 100000",
		weighted("dp-mlp") + "weighting: {mlp: {clip: 0}}\n":        "weighting.mlp.clip: 0 is not between 1e-9",
		weighted("dp-mlp") + "weighting: {mlp: {step_size: 0}}\n":   "weighting.mlp.step_size: 0 is not above 0",
		weighted("dp-mlp") + "weighting: {mlp: {step_size: 101}}\n": "weighting.mlp.step_size: 101 is not",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "run.yaml: ") {
			t.Errorf("%q: error %v; want one that names the file and says %q", strings.TrimPrefix(text, good), err,
				want)
		}
	}
	for _, text := range []string{
		boosted, gan + "post: [drs]\n", gan + "post: [pgb, drs]\n",
		good + "pipeline: dpgan\npost: [pgb, drs]\nweights: dp-mlp\n",
		weighted("discriminator"), weighted("logreg-noised"), weighted("logreg-debiased"), weighted("dp-mlp"),
		good + "weights: dp-mlp\n",
		good + "pipeline: gpate\nweights: logreg-debiased\n",
		weighted("mlp") + "release: {private: false}\nevaluate: {train: x.csv, test: y.csv}\n",
		boosted + "pgb: {private: false}\nrelease: {private: false}\nevaluate: {train: x.csv, test: y.csv}\n",
		gan + "pategan: {student: {keep: 0}}\n", weighted("dp-mlp") + "pategan: {student: {keep: 0}}\n",
	} {
		if _, err := load(t, text); err != nil {
			t.Errorf("%q: %v", strings.TrimPrefix(text, good), err)
		}
	}
}

// Each stage fits its share alone, all of them and the training fit the budget, and the chosen noise of the training
// leaves little of it.
func TestPricesOfStagesFitTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	const (
		few     = "teachers: 200\npategan: {labels: 320}\ndpgan: {steps: 60}\nprivacy: {epsilon: 2}\n"
		boosted = "post: [pgb, drs]\n"
		cold    = "warm_start: {embed: 0}\n"
	)
	schema := partitiontest.Schema(t, schemaText)
	for _, lines := range []string{
		"pipeline: pategan\n" + cold + boosted,
		"pipeline: pategan\n" + cold + boosted + "weights: logreg-debiased",
		"pipeline: pategan\n" + cold + boosted + "weights: logreg-noised\nweighting: {noise: laplace}",
		"pipeline: pategan\n" + cold + boosted + "weights: logreg-debiased\nweighting: {noise: norm-gamma}",
		"pipeline: pategan\n" + boosted + "weights: dp-mlp\nwarm_start: {embed: 0.2}",
		"pipeline: gpate\nweights: logreg-noised\nweighting: {noise: laplace}",
		"pipeline: dpgan\n" + cold + boosted,
		"pipeline: dpgan\n" + cold + boosted + "weights: dp-mlp",
		"pipeline: embed\nweights: dp-mlp",
	} {
		s := runOf(t, few, lines)
		p, err := NewPlan(s, schema)
		if err != nil {
			t.Errorf("%s: %v", lines, err)
			continue
		}
		budget := privacy.Budget{Epsilon: 2, Delta: 1e-5, Filter: p.Filter()}
		for i, event := range p.Stages.Cost() {
			share := runfile.Section[iw.Options](s).Share
			if event.Kind == privacy.Exponential {
				share = runfile.Section[pgb.StageOptions](s).Share
			}
			claim, err := privacy.Account([]privacy.Event{event}, 1e-5)
			if most := share * 2; err != nil || claim.Epsilon > most*(1+1e-9) || claim.Epsilon < 0.95*most {
				t.Errorf("%s: stage %d, %v, costs %v of %v (%v)", lines, i, event.Kind, claim.Epsilon, most, err)
			}
		}
		if len(p.Stages.Cost()) == 0 {
			t.Errorf("%s: no stage is paid for", lines)
		}
		var own []privacy.Event
		if p.Queries > 0 {
			own = p.Training.Worst(p.Releases(p.Queries))
		}
		if _, err := budget.Admit(own, p.Others()); err != nil {
			t.Errorf("%s: %v", lines, err)
		}
		claim, err := privacy.Account(append(own, p.Others()...), 1e-5)
		if err != nil || claim.Epsilon > 2 || claim.Epsilon < 0.85*2 {
			t.Errorf("%s: the plan costs %v (%v)", lines, claim.Epsilon, err)
		}
		// The aggregator gets the same plan.
		spec := RunSpec(p, s, schema, "d", false)
		told, err := runspec.Plan(spec)
		if err != nil || !slices.Equal(told, p.Planned()) || spec.Filter != string(p.Filter()) {
			t.Errorf("%s: the plan %v is registered as %v, %v", lines, p.Planned(), told, err)
		}
		if got := privacy.Merge(append(own, p.Others()...)); len(got) != len(told.Events()) {
			t.Errorf("%s: the plan costs %v, its parts %v", lines, told.Events(), got)
		}
	}
}

// Noise of the training that is set by hand and leaves nothing for the stages is refused before anything is asked.
func TestTrainingMayNotUseUpWhatStagesNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	schema, few := partitiontest.Schema(t, schemaText), "teachers: 200\npategan: {labels: 320}"
	alone, err := NewPlan(runOf(t, votes, few), schema)
	testkit.Must(t, err)
	noise := fmt.Sprintf("pategan: {noise: %v}", alone.Training.Mechanism.Sigma)
	for stages, fits := range map[string]bool{
		"": true, "post: [drs]": true, // it is free
		"post: [pgb]": false, "weights: logreg-debiased": false, "weights: dp-mlp": false,
	} {
		if _, err := NewPlan(runOf(t, votes, few, noise, stages), schema); (err == nil) != fits || err != nil &&
			(!errors.Is(err, privacy.ErrOverBudget) ||
				!strings.Contains(err.Error(), "exceed the budget together")) {
			t.Errorf("%q: %v", stages, err)
		}
	}
}

// Selections that may spend what Theorem 2 of Neunhoeffer, Wu and Dwork 2021 charges are at least
// as sharp as its own. A test of package privacy compares the charges.
func TestSelectionsAreAsSharpAsThePaperHasThem(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	raw, err := os.ReadFile("../../../shared/reference/privacy.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/reference/privacy.json is not here")
	}
	var groups struct {
		Rows []struct {
			Rounds          int64
			Epsilon0        float64
			Delta           float64
			EpsilonAdvanced float64 `json:"epsilon_advanced"`
		} `json:"pgb_exponential_mechanism"`
	}
	if err = errors.Join(err, json.Unmarshal(raw, &groups)); err != nil || len(groups.Rows) == 0 {
		t.Fatalf("%d rows, %v", len(groups.Rows), err)
	}
	for _, r := range groups.Rows {
		s := runOf(t, votes, fmt.Sprintf("post: [pgb]\npgb: {rounds: %d, share: 0.5}", r.Rounds))
		budget := privacy.Budget{Epsilon: 2 * r.EpsilonAdvanced, Delta: r.Delta}
		stages, err := prices(s, partitiontest.Schema(t, schemaText), budget)
		if err != nil {
			if r.Epsilon0 > 1e-3 {
				t.Errorf("%+v: %v", r, err)
			}
			continue // finer than is drawn
		}
		if selections, ok := stages.Of(runspec.Selections); !ok || selections.Mechanism.Epsilon < r.Epsilon0 {
			t.Errorf("%+v: a selection has epsilon %v", r, selections.Mechanism.Epsilon)
		}
	}
}
