package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// wideOf is a schema with a label and this many numbers.
func wideOf(columns int) string {
	text := "label: label\ncolumns:\n  - {name: label, kind: binary}\n"
	for i := range columns {
		text += fmt.Sprintf("  - {name: x%d, kind: continuous, lower: 0, upper: 1}\n", i)
	}
	return text
}

// Plans that cannot be paid, drawn or computed are refused by Load or Prepare, with the option's name, before
// anything is asked or written. The suites of the pipelines test the rules of each option.
func TestRunsThatCannotWork(t *testing.T) {
	const (
		tiny   = "privacy: {epsilon: 1e-9, delta: 1e-12}\n"
		two    = "privacy: {epsilon: 2, delta: 1e-5}\n"
		gpate  = "pipeline: gpate\n"
		embed  = "pipeline: embed\n"
		dpgan  = "pipeline: dpgan\nwarm_start: {embed: 0}\n"
		warmed = "pipeline: dpgan\ndpgan: {steps: 5, rate: 1}\n"
		fitted = votes + "pategan: {labels: 320}\nweights: logreg-debiased\n"
		mlp    = votes + "pategan: {labels: 320}\nweights: dp-mlp\n"
		spoilt = "weighting: {noise: laplace, share: 0.6}"
	)
	weight, odd := replaced(t, schemaText, "age", "weight"),
		replaced(t, replaced(t, imageSchema, "height: 4, width: 4", "height: 7, width: 3"), "repeat: 16", "repeat: 21")
	channels := replaced(t, replaced(t, imageSchema, "channels: 1", "channels: 2"), "repeat: 16", "repeat: 32")
	for _, c := range []struct {
		schema, lines, want string // an empty want: it works
	}{
		// Votes.
		{schemaText, votes + "privacy: {epsilon: 1e-5, delta: 1e-5}",
			"pategan.class_share: 0.02 of privacy.epsilon 1e-05 is too small to pay for the class shares"},
		{schemaText, votes + "privacy: {epsilon: 1e-5, delta: 1e-5}\npategan: {class_share: 0.5}", ""},
		{schemaText, votes + "pategan: {class_share: 1e-7}", "pategan.class_share: 1e-07"},
		{schemaText, votes + "pategan: {class_share: 1e-7}", "raise either"},
		{schemaText, votes + "pategan: {mechanism: lnmax, noise: 50}", "pategan.noise: 50 is too expensive for one " +
			"round of 64 queries"},
		{schemaText, votes + "pategan: {mechanism: lnmax, noise: 50}", "lambda of lnmax falls"},
		{schemaText, votes + "pategan: {mechanism: lnmax, noise: 1e-13}", "lambda"},
		{schemaText, votes + "pategan: {noise: 0.5}", "pategan.noise: 0.5 is below 1"},
		{schemaText, votes + "pategan: {noise: 2}", "change pategan.noise"},
		{schemaText, votes + "pategan: {noise: 10, labels: 2}", ""},
		{schemaText, votes + "pategan: {noise: 60, labels: 100000}", ""},
		{schemaText, votes + "pategan: {noise: 1e12}", "sigma"},
		{schemaText, votes + "pategan: {mechanism: confident-gnmax, threshold_noise: 1e-3, noise: 100}", "sigma"},

		// Gradients.
		{wideText, gpate + "gpate: {noise: 6, rounds: 1000}", ""},
		{wideText, gpate + "gpate: {noise: 0.5}", "run.yaml: gpate.noise: 0.5 is too expensive for one round"},
		{wideText, gpate + "gpate: {noise: 0.5}", "change gpate.noise"},
		{wideText, gpate + "gpate: {noise: 1e-9}", "gradients: "},
		{wideText, gpate + "gpate: {noise: 1e9}", "gradients: "},
		{wideText, gpate + "gpate: {answers: histogram, mechanism: gnmax, directions: 3, records: 12, noise: 2}",
			"gpate.noise: 2 is too expensive for one round of 36 queries"},
		{wideText, gpate + "gpate: {answers: histogram, mechanism: gnmax, noise: 0.5}", "gpate.noise: 0.5 is below 1"},
		{wideText, gpate + "gpate: {answers: histogram, mechanism: gnmax, noise: 1e12}", "gradients: "},
		{wideText, gpate + "gpate: {answers: winner, mechanism: confident-gnmax, noise: 100, threshold_noise: 1e-4}",
			"sigma"},
		{wideText, gpate + "gpate: {class_epsilon: 1}", "gpate.class_epsilon: 1 leaves nothing of privacy.epsilon 1"},
		{wideText, gpate + "gpate: {noise: 50, class_epsilon: 3}", "gpate.class_epsilon: 3"},
		{wideText, gpate + "gpate: {class_epsilon: 1e-9}", "gpate.class_epsilon: 1e-09"},
		{wideText, gpate + "gpate: {directions: 7}", "run.yaml: gpate.directions: 7 are more than the 6 features"},
		{wideText, gpate + "gpate: {directions: 6, records: 4}", ""},
		{imageSchema, gpate + "gpate: {teacher: {cosines: 3}}", ""},
		{odd, gpate + "gpate: {teacher: {cosines: 2}, student: {generator: convolution}}",
			"gpate.student: a generator of kind convolution cannot make images of 7 x 3"},
		{channels, gpate + "gpate: {teacher: {cosines: 2}}", "images of 2 channels are not supported"},
		{imageSchema, gpate + "gpate: {teacher: {cosines: 2}}\nevaluate: {test: other-images.idx}", "other-images.idx"},
		{imageSchema, gpate + "evaluate: {test: other-images.idx, models: [all]}", "evaluate.models"},
		{imageSchema, gpate + "evaluate: {test: other-images.idx}\nrelease: {rows: 1}",
			"release.rows: 1 image cannot be compared"},
		{imageSchema, "pipeline: pategan", "images are not available with pategan; use embed, dpgan or gpate"},

		// Steps.
		{wideText, dpgan + "dpgan: {steps: 5, noise: 20}", ""},
		{wideText, dpgan + "dpgan: {discriminator: {fourier: 100000}}",
			"run.yaml: dpgan.discriminator: a discriminator of more than 131072 weights"},
		{wideText, dpgan + "dpgan: {class_epsilon: 2}",
			"dpgan.class_epsilon: 2 leaves nothing of privacy.epsilon 1 for 100 steps"},
		{wideText, dpgan + "dpgan: {class_epsilon: 1e-14}", "dpgan.class_epsilon: 1e-14"},
		{wideText, dpgan + "dpgan: {steps: 1, noise: 0.5}", "run.yaml: dpgan.noise: 0.5"},
		{wideText, dpgan + "dpgan: {steps: 100, noise: 6}", "run.yaml: dpgan.noise: 6"},
		{wideText, dpgan + "dpgan: {steps: 1, noise: 1e-9}", "noise"},
		{wideText, dpgan + "dpgan: {steps: 1, noise: 1e6}", "noise"},

		// Embeddings, and starts with one.
		{wideText, embed + "embed: {noise: 5}", ""},
		{unlabelled, embed, ""},
		{single, embed + "warm_start: {embed: 0}", ""},
		{wideText, embed + "embed: {noise: 3.7}", "run.yaml: embed.noise: 3.7 is too small"},
		{wideText, embed + "embed: {noise: 1e-9}", "embed.noise: 1e-09 is too small"},
		{wideText, embed + "embed: {noise: 1e10}", "run.yaml: embed.noise: 1e+10 is too large"},
		{imageSchema, embed + "embed: {features: {columns: 1}}",
			"run.yaml: embed.features: columns and pairs are for tables only"},
		{wideText, embed + "warm_start: {embed: 0.5}", "warm_start.embed: 0.5"},
		{wideText, embed + tiny, "raise privacy.epsilon"},
		{wideText, "pipeline: pategan\nwarm_start: {embed: 0.3}", ""},
		{wideText, gpate + "warm_start: {embed: 0.3}", ""},
		{wideText, warmed + "warm_start: {embed: 0.3}", ""},
		{wideText, "pipeline: pategan\nwarm_start: {embed: .inf}", "warm_start.embed: +Inf is not a share"},
		{wideText, "pipeline: pategan\nwarm_start: {embed: 0.3}\nembed: {features: {columns: 0, pairs: 0, fourier: 0}}",
			"warm_start.embed: embed.features: columns, pairs, fourier and patches are all 0"},
		{wideText, "pipeline: pategan\nwarm_start: {embed: 0.3}\nembed: {fit: {steps: -1}}",
			"run.yaml: embed.fit.steps: -1"},
		{wideText, "pipeline: pategan\nwarm_start: {embed: 1e-9}\n" + tiny, "warm_start.embed: "},
		{wideText, gpate + "warm_start: {embed: 0.99999999}", "or lower warm_start.embed"},
		{wideText, gpate + "warm_start: {embed: 0.5}\n" + tiny, "warm_start.embed: "},
		{wideText, warmed + "warm_start: {embed: 0.9999999999}", "warm_start.embed"},
		{wideText, warmed + "warm_start: {embed: 0.5}\n" + tiny, "warm_start.embed: "},

		// Shares of stages: the error names those that took the rest of the budget, and a start that nobody set
		// makes room.
		{schemaText, "pipeline: pategan\n" + two + "post: [pgb]\nweights: logreg-debiased\nweighting: {noise: laplace}",
			""},
		{schemaText, "pipeline: pategan\n" + two +
			"post: [pgb]\nweights: logreg-noised\nweighting: {noise: norm-gamma, share: 0.4}", ""},
		{schemaText, "pipeline: pategan\n" + two + "post: [pgb]\npgb: {share: 0.6}", ""},
		{schemaText, "pipeline: pategan\n" + two + "post: [pgb]\nwarm_start: {embed: 0.99}",
			"warm_start.embed: 0.99, pgb.share: 0.2 leave nothing of privacy.epsilon 2"},
		{schemaText, votes + two + "post: [pgb]\npgb: {share: 0.999999}", ", pgb.share: 0.999999 leave nothing"},
		{schemaText, dpgan + two + "post: [pgb]\npgb: {share: 0.999999}", ", pgb.share: 0.999999 leave nothing"},
		{schemaText, "pipeline: pategan\n" + two + "weights: logreg-noised\nwarm_start: {embed: 0.5}\n" + spoilt,
			"warm_start.embed: 0.5, weighting.share: 0.6 leave nothing"},

		// Prices and noise of stages:
		{schemaText, mlp + "weighting: {mlp: {rate: 1e-9, steps: 5}}",
			"weighting.mlp.rate: with 1e-09 and 5 steps, the probability that a unit is used at all is below " +
				"privacy.delta"},
		{schemaText, mlp + "weighting: {share: 1e-5}",
			"weighting.mlp: 200 steps at rate 0.1 need a noise multiplier of"},
		{schemaText, fitted + "weighting: {share: 1e-14}", "weighting.share"},
		{schemaText, fitted + "weighting: {share: 1e-9, noise: laplace}", "weighting.share"},
		{schemaText, votes + "pategan: {labels: 320}\npost: [pgb]\npgb: {share: 1e-13}", "pgb.share"},
		{schemaText, fitted + "release: {rows: 10000000}",
			"10000000 synthetic rows of 4 features are more than"},
		{wideOf(37), fitted + "weighting: {noise: norm-gamma}", ""},
		{wideOf(38), fitted + "weighting: {noise: norm-gamma}", "41"},
		{wideOf(20), fitted + "weighting: {noise: norm-gamma, squares: true}", "43"},
		{wideOf(397), fitted, ""},
		{wideOf(398), fitted, "401 features, and the maximum is 400 coefficients"},
		{wideOf(200), fitted + "weighting: {noise: laplace, squares: true}", "have 403 features"},
		{wideOf(397), fitted + "weighting: {noise: laplace}", ""},

		// Stages that the schema does not allow.
		{weight, "weights: dp-mlp", `run.yaml: weights: dp-mlp: weights of rows need a column "weight": the ` +
			"schema has a column of this name"},
		{weight, "weights: dp-mlp\nweighting: {use: resample}", ""},
		{imageSchema, gpate + "weights: dp-mlp",
			"run.yaml: weights: dp-mlp: images cannot be weighted; use none"},
		{imageSchema, dpgan + "post: [pgb]\npgb: {private: false}\nrelease: {private: false}\n" +
			"evaluate: {train: x, test: y}", "run.yaml: pgb.private: false is for tables"},
	} {
		if testing.Short() && (strings.Contains(c.lines, "dpgan") || strings.Contains(c.lines, "weight")) {
			continue // one thread of arithmetic, and slow with a race detector
		}
		t.Run("", func(t *testing.T) {
			text := "name: r1\nschema: schema.yaml\nteachers: 200\n" + c.lines + "\n"
			if !strings.Contains(text, "privacy: ") {
				text += "privacy: {epsilon: 1, delta: 1e-5}\n"
			}
			files := map[string]string{"schema.yaml": c.schema, "run.yaml": text}
			if strings.Contains(text, "other-images") {
				files["other-images.idx"], files["other-labels.idx"] = otherImages(t)
			}
			dir := write(t, files)
			s, err := runfile.Load(filepath.Join(dir, "run.yaml"))
			if err == nil {
				_, err = Prepare(s)
			}
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\nerror %v, want %q", c.lines, err, c.want)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(files) {
				t.Errorf("%d files after it (%v)", len(entries), err)
			}
		})
	}
}

// otherImages are ten of 8 x 8 pixels, and their labels.
func otherImages(t *testing.T) (images, labels string) {
	t.Helper()
	x := &idx.Images{Shape: partition.Image{Height: 8, Width: 8, Channels: 1}, Pixels: make([]byte, 640),
		Classes: make([]int, 10)}
	a, b, err := idx.Encode(x, false)
	testkit.Must(t, err)
	return string(a), string(b)
}
