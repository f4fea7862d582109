package run

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline/pategan"
	"github.com/conclave-dp/conclave/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Plan is what a run will ask, and at what price, before anything is asked.
type Plan struct {
	// Labels is the number of queries, Rounds of how many rounds.
	Labels, Rounds int
	// Mechanism answers them.
	Mechanism *conclavev1.Mechanism
	// ClassShareEpsilon is the price of the class shares.
	ClassShareEpsilon float64
	// Classes is the number of classes of the label, 1 without one.
	Classes int
}

// NewPlan chooses the number of labels and the least noise that the budget
// allows for them, unless the spec sets either. It refuses what could not be
// asked, before a run is open or anything is spent.
func NewPlan(s *Spec, schema *partition.Schema) (*Plan, error) {
	o := s.PATEGAN
	budget, err := privacy.NewBudget(s.Privacy.Epsilon, s.Privacy.Delta)
	if err != nil {
		return nil, err
	}
	p := &Plan{Labels: o.Labels, ClassShareEpsilon: o.ClassShare * s.Privacy.Epsilon, Classes: max(1, len(schema.Classes()))}
	if p.Labels == 0 {
		p.Labels = pategan.LabelsFor(s.Privacy.Epsilon, s.Teachers)
	}
	p.Rounds = (p.Labels + o.Queries - 1) / o.Queries
	classShare := p.classShare()
	p.Mechanism = &conclavev1.Mechanism{WholeHistogram: o.Release == "histogram"}
	switch o.Mechanism {
	case pategan.LNMax:
		p.Mechanism.Kind = conclavev1.Mechanism_KIND_LNMAX
		if p.Mechanism.Lambda = o.Noise; o.Noise == 0 {
			if p.Mechanism.Lambda, err = privacy.LNMaxLambda(budget, int64(p.Labels), classShare); err != nil {
				return nil, fmt.Errorf("plan %d labels: %w", p.Labels, err)
			}
		}
	case pategan.GNMax, pategan.ConfidentGNMax:
		sigma := o.Noise
		if sigma > 0 && sigma < privacy.MinSigma {
			return nil, fmt.Errorf("pategan.noise: %v is below %v, the least that integer noise can be; raise it, or use 0 to have it chosen", sigma, privacy.MinSigma)
		}
		if sigma == 0 {
			if sigma, err = privacy.GNMaxSigma(budget, int64(p.Labels), classShare); err != nil {
				return nil, fmt.Errorf("plan %d labels: %w", p.Labels, err)
			}
		}
		p.Mechanism.Kind = conclavev1.Mechanism_KIND_GNMAX
		if o.Mechanism == pategan.ConfidentGNMax {
			p.Mechanism.Kind = conclavev1.Mechanism_KIND_CONFIDENT_GNMAX
			if o.Noise == 0 {
				// When every query passes, a query costs 1/s1^2 + 2/s2^2 with
				// s1 = k s2; that is a GNMax query of noise s2/sqrt(1 + 1/(2k^2)).
				sigma *= math.Sqrt(1+1/(2*o.ThresholdNoise*o.ThresholdNoise)) * (1 + 1e-9)
			}
			p.Mechanism.SigmaThreshold = sigma * o.ThresholdNoise
			p.Mechanism.Threshold = o.Threshold * float64(s.Teachers)
		}
		p.Mechanism.Sigma = sigma
	}
	if err := p.checkFeasible(s, budget); err != nil {
		return nil, err
	}
	return p, nil
}

// shareNoise is the standard deviation of the noise on a query's share of n
// teachers: half the difference of two noisy counts over n. Of a winner, half
// the distance of what it can be.
func (p *Plan) shareNoise(n float64) float64 {
	m := p.Mechanism
	switch {
	case !m.WholeHistogram:
		return 0.5
	case m.Kind == conclavev1.Mechanism_KIND_LNMAX:
		return 1 / (m.Lambda * n) // a count's noise has variance 2/lambda^2
	}
	return m.Sigma / (math.Sqrt2 * n)
}

// RunSpec is the plan as the aggregator registers it.
func (p *Plan) RunSpec(s *Spec, schema *partition.Schema, dataset string, coin bool) *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: s.Name, Dataset: dataset, Pipeline: s.Pipeline, SchemaSha256: schema.SHA256,
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Unit: s.Privacy.Unit, Guarantee: s.Privacy.Guarantee,
		Teachers: uint32(s.Teachers), Mechanism: p.Mechanism,
		Quorum: s.PATEGAN.Quorum, DeadlineSeconds: s.PATEGAN.Deadline,
		ClassShareEpsilon: p.ClassShareEpsilon, CoinVotes: coin,
	}
}

// teacherSpec is how the run's teachers learn and vote.
func teacherSpec(s *Spec, classes int, coin bool) *conclavev1.TeacherSpec {
	o := s.PATEGAN.Teacher
	t := &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Classes: uint32(classes),
		Steps: uint32(o.Steps), Batch: uint32(o.Batch), LearningRate: float32(o.Rate), WeightDecay: float32(o.Decay), Seed: s.Seed,
	}
	if t.Features = conclavev1.TeacherSpec_FEATURES_STANDARD; o.Features == "plain" {
		t.Features = conclavev1.TeacherSpec_FEATURES_PLAIN
	}
	if o.Model == "hidden" {
		t.Model, t.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, uint32(o.Hidden)
	}
	switch {
	case coin:
		t.Vote = conclavev1.TeacherSpec_VOTE_COIN
	case s.PATEGAN.Votes == pategan.Relative:
		t.Vote = conclavev1.TeacherSpec_VOTE_RELATIVE
	case s.PATEGAN.Votes == pategan.Plain:
		t.Vote = conclavev1.TeacherSpec_VOTE_PLAIN
	default:
		t.Vote = conclavev1.TeacherSpec_VOTE_CALIBRATED
	}
	return t
}
