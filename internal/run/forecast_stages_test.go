package run

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// What is asked after the training is forecast too: its price, and what leaves a node for it.
func TestForecastOfStages(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for name, c := range map[string]struct {
		set     func(*runfile.Spec)
		leaving []string
		kinds   []privacy.Kind
		planned bool
	}{
		"none": {func(*runfile.Spec) {}, nil, nil, false},
		"pgb": {func(s *runfile.Spec) {
			s.Post = []string{"pgb"}
		}, []string{"score sums"}, []privacy.Kind{privacy.Exponential}, false},
		"drs": {func(s *runfile.Spec) { s.Post = []string{"drs"} }, nil, nil, false},
		"fit": {func(s *runfile.Spec) {
			s.Weights = "logreg-debiased"
		}, []string{"derivatives"}, []privacy.Kind{privacy.Gaussian}, false},
		"pure fit": {func(s *runfile.Spec) {
			s.Weights, runfile.Section[iw.Options](s).Noise = "logreg-noised", "laplace"
		}, []string{"derivatives"}, []privacy.Kind{privacy.Laplace}, true},
		"both": {func(s *runfile.Spec) {
			s.Post, s.Weights = []string{"pgb"}, "dp-mlp"
		}, []string{"score sums", "weighting sums"}, []privacy.Kind{privacy.Exponential, privacy.SubsampledGaussian},
			true},
		"one is not": {func(s *runfile.Spec) { s.Weights = "discriminator" }, nil, nil, false},
	} {
		s := voteSpec()
		s.Privacy.Epsilon, s.Privacy.Delta, runfile.Section[pategan.Options](s).Labels = 2, 1e-5, 100
		c.set(s)
		f, err := NewForecast(s, tinySchema(t), Node{Dataset: "d", Site: "s", Node: "1", Teachers: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var after []string
		for _, m := range f.Leaving {
			if m.Name == "score sums" || m.Name == "derivatives" || m.Name == "weighting sums" {
				after = append(after, m.Name)
				if m.Times < 1 || m.Bytes < 10 || !strings.Contains(m.Content, "the aggregator") {
					t.Errorf("%s: %+v", name, m)
				}
			}
		}
		if strings.Join(after, ",") != strings.Join(c.leaving, ",") || f.Planned != c.planned ||
			!(f.Claim.Epsilon <= 2) || f.Unanimous < 1 {
			t.Errorf("%s: leaving %q, planned %v, claim %v, %d teachers", name, after, f.Planned, f.Claim.Epsilon,
				f.Unanimous)
		}
		var kinds []privacy.Kind
		for _, e := range f.Events[1 : len(f.Events)-1] { // between round 0 and the votes
			kinds = append(kinds, e.Kind)
		}
		if len(kinds) != len(c.kinds) || len(kinds) > 0 && kinds[0] != c.kinds[0] {
			t.Errorf("%s: events %v, want %v", name, f.Events, c.kinds)
		}
	}
}
