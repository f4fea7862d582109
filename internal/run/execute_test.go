package run

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/runfile"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Whatever changes what a student would ask or learn changes its identity, so
// that it does not go on from a checkpoint of something else.
func TestIdentityNamesAllThatACheckpointDependsOn(t *testing.T) {
	schema := tinySchema(t)
	base := func() *runfile.Spec {
		s := voteSpec()
		s.Name, s.Privacy.Epsilon, s.Privacy.Delta = "r1", 1, 1e-5
		return s
	}
	want := identity(base(), schema, false)
	if again := identity(base(), schema, false); again != want {
		t.Error("the same spec has two identities")
	}
	if identity(base(), schema, true) == want {
		t.Error("coin flips have the identity of votes")
	}
	for name, change := range map[string]func(*runfile.Spec){
		"name":     func(s *runfile.Spec) { s.Name = "r2" },
		"seed":     func(s *runfile.Spec) { s.Seed++ },
		"teachers": func(s *runfile.Spec) { s.Teachers++ },
		"queries":  func(s *runfile.Spec) { runfile.Section[pategan.Options](s).Queries++ },
		"rate":     func(s *runfile.Spec) { runfile.Section[pategan.Options](s).Student.GeneratorRate *= 1.0000001 },
		"steps":    func(s *runfile.Spec) { runfile.Section[pategan.Options](s).Student.GeneratorSteps++ },
		"teacher":  func(s *runfile.Spec) { runfile.Section[pategan.Options](s).Teacher.Batch++ },
		"votes":    func(s *runfile.Spec) { runfile.Section[pategan.Options](s).Votes = "plain" },
	} {
		s := base()
		if change(s); identity(s, schema, false) == want {
			t.Errorf("%s does not change the identity", name)
		}
	}
	for name, change := range map[string]func(*runfile.Spec){
		"rows":     func(s *runfile.Spec) { s.Release.Rows++ },
		"evaluate": func(s *runfile.Spec) { s.Evaluate.Test = "other.csv" },
		"path":     func(s *runfile.Spec) { s.Path, s.Text = "x", "y" },
	} {
		s := base()
		if change(s); identity(s, schema, false) != want {
			t.Errorf("%s changes the identity, though no question depends on it", name)
		}
	}
}

func TestAClosedRunHasOnlyItsReleasesLeft(t *testing.T) {
	shares := &plan.Plan{Queries: 100, Rounds: 4, PerRound: 32, ClassShareEpsilon: 0.1}
	alone := &plan.Plan{Queries: 100, Rounds: 4, PerRound: 32} // without a first round of another kind
	for _, c := range []struct {
		p      *plan.Plan
		closed bool
		rounds uint64
		want   int
	}{
		{shares, false, 0, 100}, {shares, false, 5, 100},
		{shares, true, 0, 0}, {shares, true, 1, 0}, {shares, true, 3, 64}, {shares, true, 5, 100},
		{alone, false, 0, 100}, {alone, true, 0, 0}, {alone, true, 1, 32}, {alone, true, 4, 100},
	} {
		opened := &conclavev1.OpenRunResponse{Closed: c.closed, Rounds: c.rounds}
		if got := min(c.p.Queries, c.p.PerRound*roundsLeft(c.p, opened)); got != c.want {
			t.Errorf("closed %v after %d releases: %d labels left, want %d", c.closed, c.rounds, got, c.want)
		}
	}
}
