package pipelines_test

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/pipelines/pipelinetest"
)

// short is the section of an embedding that is fitted quickly, as a warm start for GANs.
const (
	short = "{features: {waves: 20}, fit: {steps: 40, batch: 32}, student: {hidden: 8}}"
	start = "\nembed: " + short
)

// small are the sections of runs of some seconds.
var small = map[string]string{
	"pategan": "{labels: 48, queries: 8, student: {generator_steps: 3, hidden: 8, step: 0.01}}" + start,
	"gpate": "{rounds: 5, records: 8, teacher: {steps: 2, training: 16}, " +
		"student: {generator_steps: 2, hidden: 8}}" + start,
	"dpgan":     "{steps: 12, discriminator: {generated: 64}, student: {hidden: 8, batch: 64, steps: 2}}" + start,
	"embed":     short,
	"marginals": "{fine: 16, cells: 8, steps: 50}",
}

// staged are the lines of small runs that have a stage.
var staged = map[string]string{
	"pgb":       gan + "post: [pgb]\npgb: {rounds: 5, candidates: 200}\n",
	"drs":       gan + "post: [drs]\n",
	"relabel":   "embed: " + short + "\npost: [relabel]\nrelabel: {directions: 20}\n",
	"weighting": gan + "weights: logreg-noised\n",
	"quality":   "marginals: {fine: 16, cells: 8, steps: 50}\nquality: {budget: 0.3}\n",
}

const gan = "pipeline: pategan\nwarm_start: {embed: 0}\n" +
	"pategan: {labels: 48, queries: 8, student: {generator_steps: 3, hidden: 8, step: 0.01}}\n"

func TestPipelines(t *testing.T) {
	for _, p := range pipelines.All {
		t.Run(p.Name, func(t *testing.T) { pipelinetest.Run(t, p, small[p.Name]) })
	}
}

func TestStages(t *testing.T) {
	for _, s := range pipelines.Stages {
		t.Run(s.Name, func(t *testing.T) { pipelinetest.RunStage(t, s, staged[s.Name]) })
	}
	t.Run("relabel of a table", func(t *testing.T) {
		pipelinetest.RunStage(t, pipelines.StageNamed("relabel"),
			"pipeline: marginals\nmarginals: {fine: 16, cells: 8, steps: 50}\npost: [relabel]\nrelabel: {rounds: 3}\n")
	})
}
