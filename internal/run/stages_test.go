package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/drs"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Options of the stages after training that cannot work are found when the file is read, and
// said by their names.
func TestStagesThatCannotWork(t *testing.T) {
	const gan, boosted = good + "pipeline: pategan\n", good + "pipeline: pategan\npost: [pgb]\n"
	weighted := func(method string) string { return gan + "weights: " + method + "\n" }
	for text, want := range map[string]string{
		gan + "post: [mst]\n":      `post[0]: "mst" is not a stage; use pgb or drs`,
		gan + "post: [pgb, pgb]\n": `post[1]: "pgb" is there twice`,
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
		boosted + "pgb: {private: false}\n": "pgb.private: false is NOT PRIVATE, and the " +
			"release is marked private; set release.private: false",
		boosted + "pgb: {private: false}\nrelease: {private: false}\n": "pgb.private: false takes the real rows of " +
			"evaluate.train; name them",
		gan + "post: [drs]\ndrs: {percentile: 101}\n": "drs.percentile: 101",
		gan + "post: [drs]\ndrs: {percentile: -1}\n":  "drs.percentile: -1",
		gan + "post: [drs]\ndrs: {tries: 0}\n":        "drs.tries: 0",

		weighted("ji-elkan"): `weights: "ji-elkan" is not a method; use none, discriminator, ` +
			"logreg-noised, logreg-debiased, dp-mlp, logreg, mlp",
		weighted(`""`): `weights: "" is not a method`,
		weighted("logreg"): "weights: logreg is NOT PRIVATE, and the release is marked private; set " +
			"release.private: false for a comparison, or use logreg-debiased",
		weighted("mlp"): "weights: mlp is NOT PRIVATE",
		weighted("mlp") + "release: {private: false}\n": "weights: mlp takes the real rows of " +
			"evaluate.train; name them",
		weighted("logreg") + "release: {private: false}\n": "weights: logreg takes the real rows of evaluate.train",
		boosted + "weights: discriminator\n": "weights: discriminator: post: pgb has chosen rows by " +
			"discriminators already",
		gan + "post: [drs]\nweights: discriminator\n": "weights: discriminator: post: drs has chosen rows",

		weighted("dp-mlp") + "weighting: {use: both}\n": `weighting.use: "both" is not known; ` +
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
			"weighting: {noise: uniform}\n": `weighting.noise: "uniform" is not known; ` +
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

// What the schema does not allow is found before a cluster is asked.
func TestStagesAgainstTheSchema(t *testing.T) {
	const images = `label: y
format: idx
image: {height: 4, width: 4, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 16}
  - {name: y, kind: categorical, categories: [left, right]}
`
	taken := replaced(t, schemaText, "age", "weight")
	for name, c := range map[string]struct{ schema, text, want string }{
		"a column called weight": {taken, good + "weights: dp-mlp\n",
			`weights: dp-mlp: weights of rows stand in a column "weight": the schema has a column of this name`},
		"resampled, no column": {taken, good + "weights: dp-mlp\nweighting: {use: resample}\n", ""},
		"without weights":      {taken, good, ""},
		"weights of images": {images, good + "weights: dp-mlp\n",
			"weights: dp-mlp: rows of images are not weighted; use none"},
		"best response to images": {images,
			good + "pipeline: dpgan\npost: [pgb]\npgb: {private: false}\nrelease: {private: false}\nevaluate: " +
				"{train: x, test: y}\n",
			"pgb.private: false is for tables"},
	} {
		dir := write(t, map[string]string{"schema.yaml": c.schema, "run.yaml": c.text})
		s, err := runfile.Load(filepath.Join(dir, "run.yaml"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err = Prepare(s); (err == nil) != (c.want == "") ||
			err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "run.yaml")) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// staged are specs of all pipelines with the stages that go with them.
func staged() map[string]func(*runfile.Spec) {
	gan := func(pipeline string, share float64) func(*runfile.Spec) {
		return func(s *runfile.Spec) {
			s.Pipeline, runfile.Section[embed.WarmStart](s).Embed, s.Teachers = pipeline, share, 200
			runfile.Section[pategan.Options](s).Labels, runfile.Section[dpgan.Options](s).Steps = 320, 60
		}
	}
	post := func(s *runfile.Spec) { s.Post = []string{pgb.Stage.Name, drs.Stage.Name} }
	weights := func(method, noise string) func(*runfile.Spec) {
		return func(s *runfile.Spec) { s.Weights, runfile.Section[iw.Options](s).Noise = method, noise }
	}
	all := func(changes ...func(*runfile.Spec)) func(*runfile.Spec) {
		return func(s *runfile.Spec) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	gaussian, mlp := weights(iw.Debiased, "gaussian"), weights(iw.PrivateMLP, "gaussian")
	laplace, gamma := weights(iw.Noised, "laplace"), weights(iw.Debiased, "norm-gamma")
	return map[string]func(*runfile.Spec){
		"pategan, pgb":               all(gan("pategan", 0), post),
		"pategan, pgb, gaussian":     all(gan("pategan", 0), post, gaussian),
		"pategan, pgb, laplace":      all(gan("pategan", 0), post, laplace),
		"pategan, pgb, norm-gamma":   all(gan("pategan", 0), post, gamma),
		"pategan, warm, pgb, dp-mlp": all(gan("pategan", 0.2), post, mlp),
		"gpate, laplace":             all(gan("gpate", 0), laplace),
		"dpgan, pgb":                 all(gan("dpgan", 0), post),
		"dpgan, pgb, dp-mlp":         all(gan("dpgan", 0), post, mlp),
		"embed, dp-mlp":              all(gan("embed", 0), mlp),
	}
}

// Each stage fits its share by itself, all of them with the training fit the budget, and the
// noise that was chosen for the training leaves little of it.
func TestPricesOfStagesFitTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	schema := tinySchema(t)
	for name, change := range staged() {
		for _, epsilon := range []float64{2} {
			s := runfile.DefaultSpec()
			change(s)
			s.Privacy.Epsilon, s.Privacy.Delta = epsilon, 1e-5
			p, err := NewPlan(s, schema)
			if err != nil {
				t.Errorf("%s, epsilon %v: %v", name, epsilon, err)
				continue
			}
			budget := privacy.Budget{Epsilon: epsilon, Delta: 1e-5, Filter: p.Filter()}
			for i, event := range p.Stages.Cost() {
				share := runfile.Section[iw.Options](s).Share
				if event.Kind == privacy.Exponential {
					share = runfile.Section[pgb.StageOptions](s).Share
				}
				claim, err := privacy.Account([]privacy.Event{event}, 1e-5)
				if most := share * epsilon; err != nil || claim.Epsilon > most*(1+1e-9) || claim.Epsilon < 0.95*most {
					t.Errorf("%s, epsilon %v: stage %d, %v, costs %v of %v (%v)", name, epsilon, i, event.Kind,
						claim.Epsilon, most, err)
				}
			}
			if len(p.Stages.Cost()) == 0 {
				t.Errorf("%s: no stage is paid for", name)
			}
			var own []privacy.Event
			if p.Queries > 0 {
				own = p.Training.Worst(p.Releases(p.Queries))
			}
			if _, err := budget.Admit(own, p.Others()); err != nil {
				t.Errorf("%s, epsilon %v: %v", name, epsilon, err)
			}
			claim, err := privacy.Account(append(own, p.Others()...), 1e-5)
			if err != nil || claim.Epsilon > epsilon || claim.Epsilon < 0.85*epsilon {
				t.Errorf("%s, epsilon %v: the plan costs %v (%v)", name, epsilon, claim.Epsilon, err)
			}
			// The aggregator is told the same.
			spec := RunSpec(p, s, schema, "d", false)
			told, err := runspec.Plan(spec)
			if err != nil || !slices.Equal(told, p.Planned()) || spec.Filter != string(p.Filter()) {
				t.Errorf("%s: the plan %v is registered as %v, %v", name, p.Planned(), told, err)
			}
			if got := privacy.Merge(append(own, p.Others()...)); len(got) != len(told.Events()) {
				t.Errorf("%s: the plan costs %v, its parts %v", name, told.Events(), got)
			}
		}
	}
}

// Noise of the training that is set by hand and leaves the stages nothing is refused before
// anything is asked.
func TestTrainingMayNotUseUpWhatStagesNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	schema := tinySchema(t)
	s := voteSpec()
	s.Privacy.Epsilon, s.Privacy.Delta, s.Teachers, runfile.Section[pategan.Options](s).Labels = 1, 1e-5, 200, 320
	alone, err := NewPlan(s, schema)
	testkit.Must(t, err)
	runfile.Section[pategan.Options](s).Noise = alone.Training.Mechanism.Sigma
	if _, err := NewPlan(s, schema); err != nil {
		t.Fatalf("without stages: %v", err)
	}
	for _, change := range []func(*runfile.Spec){
		func(s *runfile.Spec) { s.Post = []string{pgb.Stage.Name} },
		func(s *runfile.Spec) { s.Weights = iw.Debiased },
		func(s *runfile.Spec) { s.Weights = iw.PrivateMLP },
	} {
		with := s.Clone()
		change(with)
		if _, err := NewPlan(with, schema); !errors.Is(err, privacy.ErrOverBudget) ||
			!strings.Contains(err.Error(), "do not fit the budget together") {
			t.Errorf("post %v, weights %s: %v", with.Post, with.Weights, err)
		}
	}
	free := s.Clone()
	free.Post, free.Weights = []string{drs.Stage.Name}, iw.None
	if _, err := NewPlan(free, schema); err != nil {
		t.Errorf("rejection, which is free: %v", err)
	}
}

// Shares that buy no noise that can be drawn are refused by their names.
// What is left to the training is told by the shares that took the rest, and a start that
// nobody set makes room for stages.
func TestSharesLeaveRoom(t *testing.T) {
	schema := tinySchema(t)
	for options, want := range map[string]string{
		"post: [pgb]\nweights: logreg-debiased\nweighting: {noise: laplace}\n":              "",
		"post: [pgb]\nweights: logreg-noised\nweighting: {noise: norm-gamma, share: 0.4}\n": "",

		"post: [pgb]\npgb: {share: 0.6}\n": "",

		"post: [pgb]\nwarm_start: {embed: 0.99}\n": "warm_start.embed: 0.99, pgb.share: 0.2 leave nothing of " +
			"privacy.epsilon 2",
		"post: [pgb]\nwarm_start: {embed: 0}\npgb: {share: 0.999999}\n": ", pgb.share: 0.999999 leave nothing",

		"weights: logreg-noised\nwarm_start: {embed: 0.5}\n" +
			"weighting: {noise: laplace, share: 0.6}\n": "warm_start.embed: 0.5, weighting.share: 0.6 leave nothing",
	} {
		for _, pipeline := range []string{"pategan", "dpgan"} {
			if pipeline == "dpgan" && !strings.Contains(want, "pgb.share: 0.999999") {
				continue // takes long, and is no different
			}
			s := runfile.DefaultSpec()
			testkit.Must(t, s.Parse("pipeline: "+pipeline+"\n"+options))
			s.Privacy.Epsilon, s.Privacy.Delta = 2, 1e-5
			if _, err := NewPlan(s, schema); (want == "") != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s after %s: %v, want %q", options, pipeline, err, want)
			}
		}
	}
}

func TestPricesThatCannotBe(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, c := range []struct {
		change func(*runfile.Spec)
		want   string
	}{
		{func(s *runfile.Spec) {
			s.Weights, runfile.Section[iw.Options](s).MLP.Rate,
				runfile.Section[iw.Options](s).MLP.Steps = iw.PrivateMLP, 1e-9, 5
		}, "weighting.mlp.rate: 1e-09 over 5 steps takes a unit with a probability below privacy.delta"},
		{func(s *runfile.Spec) {
			s.Weights, runfile.Section[iw.Options](s).Share = iw.PrivateMLP, 1e-5
		}, "weighting.mlp: 200 steps at rate 0.1 need a noise multiplier of"},
		{func(s *runfile.Spec) {
			s.Weights, runfile.Section[iw.Options](s).Share = iw.Debiased, 1e-14
		}, "weighting.share"},
		{func(s *runfile.Spec) {
			s.Post, runfile.Section[pgb.StageOptions](s).Share = []string{pgb.Stage.Name}, 1e-13
		}, "pgb.share"},
		{func(s *runfile.Spec) {
			s.Weights, runfile.Section[iw.Options](s).Share, runfile.Section[iw.Options](s).Noise = iw.Debiased, 1e-9,
				"laplace"
		}, "weighting.share"},
		{func(s *runfile.Spec) {
			s.Weights, s.Release.Rows = iw.Debiased, 10_000_000
		}, "10000000 synthetic rows of 4 features are more than"},
	} {
		s := voteSpec()
		s.Privacy.Epsilon, s.Privacy.Delta, s.Teachers, runfile.Section[pategan.Options](s).Labels = 1, 1e-5, 200, 320
		c.change(s)
		if _, err := NewPlan(s, tinySchema(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want an error with %q", err, c.want)
		}
	}
}

// Coefficients that there is no noise for, or that are too many, are found before the
// training is paid for.
func TestFitsThatCannotBe(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	wide := func(columns int) string {
		text := "label: label\ncolumns:\n  - {name: label, kind: binary}\n"
		for i := range columns {
			text += fmt.Sprintf("  - {name: x%d, kind: continuous, lower: 0, upper: 1}\n", i)
		}
		return text
	}
	for _, c := range []struct {
		columns int
		noise   string
		squares bool
		want    string // empty where it can be
	}{
		{37, "norm-gamma", false, ""}, {38, "norm-gamma", false, "41"}, {20, "norm-gamma", true, "43"},
		{397, "gaussian", false, ""},
		{398, "gaussian", false, "have 401 features and 400 coefficients at most"},
		{200, "laplace", true, "have 403 features"}, {397, "laplace", false, ""},
	} {
		schema := partitiontest.Schema(t, wide(c.columns))
		s := voteSpec()
		s.Privacy.Epsilon, s.Privacy.Delta, s.Teachers, runfile.Section[pategan.Options](s).Labels = 1, 1e-5, 200, 320
		s.Weights, runfile.Section[iw.Options](s).Noise, runfile.Section[iw.Options](s).Squares = iw.Debiased, c.noise,
			c.squares
		if _, err := NewPlan(s, schema); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
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
		s := voteSpec()
		s.Post, runfile.Section[pgb.StageOptions](s).Rounds,
			runfile.Section[pgb.StageOptions](s).Share = []string{pgb.Stage.Name}, int(r.Rounds), 0.5
		stages, err := prices(s, tinySchema(t), privacy.Budget{Epsilon: 2 * r.EpsilonAdvanced, Delta: r.Delta})
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
