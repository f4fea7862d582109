package pipelinetest

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// RunStage checks what every stage must fulfil. Small are the lines of a run.yaml for a run of a few seconds
// that the stage follows.
func RunStage(t *testing.T, s pipeline.Stage, small string) {
	if err := s.Options().Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	checkStrict(t, s.Name, "")
	does := 0
	for _, one := range []bool{s.Apply != nil, s.Weigh != nil, s.Measure != nil} {
		if one {
			does++
		}
	}
	if does != 1 || s.Measure != nil && s.Share == nil {
		t.Error("a stage either makes rows, weighs them, or measures them at a price")
	}
	if asks := len(s.Asks) > 0; asks != (s.Price != nil) || asks != (s.Share != nil) || asks != (s.Messages != nil) {
		t.Error("a stage that asks has a price, a share and messages, and another has none")
	}
	for _, q := range s.Asks {
		if q.Says(1, 1) == "" || q.Says(7, 9) == "" {
			t.Errorf("reports say nothing of %s", q.Stage)
		}
		if _, known := kinds.All()[q.Kind]; !known || !slices.Contains(sitepolicy.Stages(), q.Stage) {
			t.Errorf("no policy can allow %s, or nodes do not answer %s", q.Stage, q.Kind)
		}
	}
	t.Run("run", func(t *testing.T) { runStage(t, s, small) })
}

// A run with the stage ends with rows and a certificate, its ledger's plan has the stage's questions, and a
// restart asks nothing twice.
func runStage(t *testing.T, s pipeline.Stage, small string) {
	run := cluster
	if strings.Contains(small, "directions:") { // of strokes, which images have
		run = clusterOfImages
	}
	spec, out := run(t, small)
	measures := s.Measure != nil && s.Share(spec.Sections[s.Name], spec.Followed(nil)).Value > 0
	if !slices.Contains(spec.Post, s.Name) && (s.Weigh == nil || spec.Weights == pipeline.NoWeights) && !measures {
		t.Fatalf("the small run of %s does not have the stage", s.Name)
	}
	var before *results.Result
	for range 2 {
		result, err := local.Run(testkit.Within(t), spec, local.Options{Out: out})
		testkit.Must(t, err)
		if result.Rows != 40 || result.EpsilonSpent > spec.Privacy.Epsilon ||
			len(result.Notes) == 0 && !measures {
			t.Errorf("%d rows for epsilon %v with the notes %q", result.Rows, result.EpsilonSpent, result.Notes)
		}
		if (len(result.Figures) > 0) != measures {
			t.Errorf("a stage that measures (%v) left the figures %+v", measures, result.Figures)
		}
		for _, f := range result.Figures {
			if err := f.Check(); err != nil || f.Epsilon > spec.Privacy.Epsilon {
				t.Errorf("the figure %+v of a run of epsilon %v: %v", f, spec.Privacy.Epsilon, err)
			}
		}
		checkCertificate(t, spec.Pipeline, result.Outputs["certificate"], result.Outputs["ledger"])
		if before != nil && (result.Rounds != before.Rounds || result.EpsilonSpent != before.EpsilonSpent) {
			t.Errorf("begun again it asked %d rounds for %v, before %d for %v", result.Rounds, result.EpsilonSpent,
				before.Rounds, before.EpsilonSpent)
		}
		before = result
		raw := testkit.Read(t, result.Outputs["ledger"])
		verified, err := ledger.Verify(bytes.NewReader(raw))
		testkit.Must(t, err)
		if asks := slices.ContainsFunc(verified.Runs[spec.Name].Plan, func(p privacy.Planned) bool {
			return slices.ContainsFunc(s.Asks, func(q pipeline.StageQuestion) bool {
				return q.Stage == p.Stage && q.Kind == p.Kind
			})
		}); asks != (len(s.Asks) > 0) {
			t.Errorf("the stage's questions are in the ledger's plan: %v, and it has %d", asks, len(s.Asks))
		}
		testkit.Must(t, os.Remove(result.Outputs["certificate"]))
	}
}
