package runspec

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestPays(t *testing.T) {
	const l1, l2, each = conclavev1.Vector_NORM_L1, conclavev1.Vector_NORM_L2, conclavev1.Vector_NORM_EACH
	per := func(per conclavev1.Vector_Per, rate float64, norm conclavev1.Vector_Norm) *conclavev1.Round {
		return &conclavev1.Round{Shape: &conclavev1.Round_Sum{
			Sum: &conclavev1.Vector{Rate: rate, Norm: norm, Per: per},
		}}
	}
	sum := func(rate float64, norm conclavev1.Vector_Norm) *conclavev1.Round {
		return per(conclavev1.Vector_PER_UNIT, rate, norm)
	}
	pass := func(r *conclavev1.Round) *conclavev1.Round {
		r.Serves = make([]byte, 32)
		return r
	}
	votes := &conclavev1.Round{Shape: &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{}}}
	of := func(e privacy.Event, variant string) privacy.Planned {
		return privacy.Planned{Mechanism: e, Variant: variant}
	}
	all := map[string]*conclavev1.Round{
		"votes": votes, "nothing": {}, "l1": sum(1, l1), "l2": sum(1, l2), "each": sum(1, each),
		"sample": sum(0.25, l2), "another sample": sum(0.26, l2), "no norm": sum(1, 0), "no rate": sum(0, l2),
		"teachers":             per(conclavev1.Vector_PER_TEACHER, 1, l2),
		"a sample of teachers": per(conclavev1.Vector_PER_TEACHER, 0.25, l2),
		"pass":                 pass(sum(1, each)), "pass over a sample": pass(sum(0.25, each)), "pass of votes": pass(
			&conclavev1.Round{Shape: votes.Shape}),
	}
	for name, c := range map[string]struct {
		planned privacy.Planned
		pays    []string
	}{
		"gaussian": {of(privacy.Event{Kind: privacy.Gaussian, Sensitivity: 1}, ""),
			[]string{"l1", "l2", "teachers", "pass"}},
		"sampled": {of(privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.25}, ""),
			[]string{"sample"}},
		"of one in a million": {of(privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 1e-6}, ""), nil},
		"laplace":             {of(privacy.Event{Kind: privacy.Laplace}, ""), []string{"l1", "pass"}},
		"norm-gamma": {of(privacy.Event{Kind: privacy.Laplace}, privacy.NormGamma),
			[]string{"l1", "l2", "teachers", "pass"}},
		"exponential": {of(privacy.Event{Kind: privacy.Exponential}, ""), []string{"l1", "l2", "each", "teachers"}},
		"gnmax":       {of(privacy.Event{Kind: privacy.GNMax}, ""), []string{"votes", "pass of votes"}},
		"confident":   {of(privacy.Event{Kind: privacy.ConfidentGNMax}, ""), []string{"votes", "pass of votes"}},
		"lnmax":       {of(privacy.Event{Kind: privacy.LNMax}, ""), []string{"votes", "pass of votes"}},
	} {
		want := map[string]bool{}
		for _, name := range c.pays {
			want[name] = true
		}
		for shape, r := range all {
			if err := Pays(c.planned, r); (err == nil) != want[shape] {
				t.Errorf("%s pays for %s: %v, want %v", name, shape, err, want[shape])
			}
		}
	}
}
