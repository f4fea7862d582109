package run

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// NewPlan chooses the number of queries and the least noise that the budget allows for them, unless the spec sets
// either. It refuses impossible questions before a run is open or anything is spent.
func NewPlan(s *runfile.Spec, schema *partition.Schema) (*plan.Plan, error) {
	budget := s.Privacy.Budget("")
	if err := budget.Validate(); err != nil {
		return nil, err
	}
	var err error
	p := &plan.Plan{Classes: runfile.ClassesOf(schema), Shares: shares(s, schema), Surplus: s.Surplus(schema)}
	if p.Stages, err = prices(s, schema, budget); err != nil {
		return nil, err
	}
	if p.Stages.Fixed() {
		budget.Filter = privacy.FilterPLD
	}
	if p.Start, err = planStart(s, schema, budget); err != nil {
		return nil, err
	}
	if err := s.Training(schema).Plan(p, budget); err != nil {
		return nil, err
	}
	if p.Start != nil {
		p.Start.Surplus = p.Surplus
	}
	if err := checkMasked(s, schema, p); err != nil || len(p.Stages) == 0 {
		return p, err
	}
	return p, p.CheckStages(budget)
}

// checkMasked refuses a masked run whose members, or whose questions, cannot be masked.
func checkMasked(s *runfile.Spec, schema *partition.Schema, p *plan.Plan) error {
	g, err := s.Group(schema)
	if g == nil || err != nil {
		return err
	}
	if err := masking.CheckPlan(p.Planned()); err != nil {
		return fmt.Errorf("aggregation.masked: %w", err)
	}
	return nil
}

// stagesOf names the stages in a plan.
func stagesOf(p *plan.Plan) (names []string) {
	for _, planned := range p.Planned() {
		if planned.Stage != "" && !slices.Contains(names, planned.Stage) {
			names = append(names, planned.Stage)
		}
	}
	return names
}

// prices are the costs of the spec's stages: each costs its share of epsilon alone.
func prices(s *runfile.Spec, schema *partition.Schema, budget privacy.Budget) (all plan.Stages, err error) {
	for _, stage := range pipelines.Stages {
		if stage.Price == nil {
			continue
		}
		priced, err := stage.Price(s.Sections[stage.Name], s.Followed(schema), budget)
		if err != nil {
			return nil, err
		}
		all = append(all, priced...)
	}
	return all, nil
}

// shares are the shares of epsilon that stages cost alone.
func shares(s *runfile.Spec, schema *partition.Schema) (all []plan.Share) {
	for _, stage := range pipelines.Stages {
		if stage.Share == nil {
			continue
		}
		if share := stage.Share(s.Sections[stage.Name], s.Followed(schema)); share.Value > 0 {
			all = append(all, share)
		}
	}
	return all
}

// warmStart is the pipeline whose release replaces the class shares, and the share of epsilon that it costs alone; 0
// for none.
func warmStart(s *runfile.Spec, schema *partition.Schema) (pipeline.Pipeline, plan.Share) {
	start, share := s.WarmStart()
	if share.Value < 0 {
		share.Value = chosenShare(s, schema)
	}
	return start, share
}

// chosenShare is the share of a warm start if the run does not set it.
func chosenShare(s *runfile.Spec, schema *partition.Schema) float64 {
	if schema.Image != nil {
		return 0
	}
	left, squares := 1.0, 0.0
	for _, share := range shares(s, schema) {
		if share.Pure {
			left -= share.Value
		} else {
			squares += share.Value * share.Value
		}
	}
	p, _ := pipelines.Named(s.Pipeline)
	share := min(p.WarmShare*left, math.Sqrt(max(0, 0.8*left*0.8*left-squares)))
	if share < 0.1 {
		return 0
	}
	return math.Round(100*share) / 100
}

// planStart plans the start that replaces the class shares; nil for none.
func planStart(s *runfile.Spec, schema *partition.Schema, budget privacy.Budget) (*plan.Start, error) {
	of, share := warmStart(s, schema)
	if share.Value == 0 {
		return nil, nil
	}
	sigma, err := privacy.GaussianSigma(share.Alone(budget), 1, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %v of privacy.epsilon %v: %w", share.Field, share.Value, budget.Epsilon, err)
	}
	start, err := of.Warm.Plan(s.Sections[of.Name], s.Problem(schema),
		budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", share.Field, err)
	}
	start.Field, start.Share = share.Field, share.Value
	return start, nil
}

// RunSpec is the spec of the plan's run at the aggregator.
func RunSpec(p *plan.Plan, s *runfile.Spec, schema *partition.Schema, dataset string, coin bool) *conclavev1.RunSpec {
	quorum, deadline := s.Training(schema).Quorum()
	var masked *conclavev1.Masked
	if g, _ := s.Group(schema); g != nil { // planning has built the same group
		masked = g.Wire()
	}
	return &conclavev1.RunSpec{
		Masked: masked,
		Name:   s.Name, Dataset: dataset, Pipeline: s.Pipeline, SchemaSha256: schema.SHA256,
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Unit: s.Privacy.Unit, Guarantee: s.Privacy.Guarantee,
		Teachers: uint32(s.Teachers), Quorum: quorum, DeadlineSeconds: deadline, CoinVotes: coin,
		Overlap: uint32(s.Privacy.Budget("").Overlap),
		Filter:  string(p.Filter()), Plan: runspec.Of(p.Planned()), Purpose: s.Purpose,
		Study: s.StudyBlock().Wire(),
	}
}
