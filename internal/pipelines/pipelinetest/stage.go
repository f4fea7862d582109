package pipelinetest

import (
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
)

// RunStage checks that a stage keeps what every stage has to keep.
func RunStage(t *testing.T, s pipeline.Stage) {
	if err := s.Options().Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	checkStrict(t, s.Name, "")
	if (s.Apply == nil) == (s.Weigh == nil) {
		t.Error("a stage either makes rows or weighs them")
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
}
