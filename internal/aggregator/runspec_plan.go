package aggregator

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// sampled are sums over Poisson samples of the privacy units.
type sampled struct {
	multiplier float64
	rate       gnmax.Rate
	count      int64
}

// newSampled returns nil for a rate of 0, which are sums over all units. The number of
// sums has to be known: samples are accounted by plans alone, for without one they would
// count as all records.
func newSampled(sigma, rate float64, field string, count uint64) (*sampled, error) {
	if _, err := gnmax.NewGaussianSum(2*minGradientBound, sigma); err != nil || rate == 0 {
		return nil, err
	}
	r, err := gnmax.NewRate(rate)
	if err != nil {
		return nil, err
	}
	if count == 0 || count > maxPlanned {
		return nil, fmt.Errorf("%s is %d; sums of samples need their number, 1 to %d", field, count, maxPlanned)
	}
	return &sampled{multiplier: sigma, rate: r, count: int64(count)}, nil
}

func (s *sampled) cost() ([]privacy.Event, error) {
	sum, err := gnmax.NewGaussianSum(2*minGradientBound, s.multiplier)
	if err != nil {
		return nil, err
	}
	return sum.SampledCost(s.rate, s.count), nil
}

// sampledAt returns the sums of the run that are over samples of the rate, nil for none.
func (s *runSpec) sampledAt(rate float64) *sampled {
	for _, one := range []*sampled{s.samples, s.weighing} {
		if one != nil && one.rate.Float() == rate {
			return one
		}
	}
	return nil
}

// stages checks what the run may ask after training.
func (s *runSpec) stages() (err error) {
	if q := s.pb.GetSelections(); q != nil {
		if _, err := gnmax.NewExponential(q.GetEpsilon(), minGradientBound); err != nil {
			return fmt.Errorf("selections: %w", err)
		}
		if q.GetCount() == 0 || q.GetCount() > maxPlanned {
			return fmt.Errorf("%d selections; a run has 1 to %d", q.GetCount(), maxPlanned)
		}
	}
	if f := s.pb.GetFit(); f != nil {
		if s.fit, err = newFitNoise(f); err != nil {
			return fmt.Errorf("fit: %w", err)
		}
	}
	if w := s.pb.GetSampled(); w != nil {
		if s.weighing, err = newSampled(w.GetSigma(), w.GetRate(), "count", w.GetCount()); err != nil {
			return fmt.Errorf("sampled: %w", err)
		}
		if s.weighing == nil {
			return errors.New("sampled: rate is 0; give the share of the privacy units in a sample, at most 1")
		}
		if m := s.pb.GetMechanism(); m.GetRate() == w.GetRate() && m.GetSigma() != w.GetSigma() {
			return fmt.Errorf("sampled: the run's mechanism samples at rate %v too, with other noise; use another rate, or the same noise", w.GetRate())
		}
	}
	return nil
}

// staged is whether the run asks anything after training.
func (s *runSpec) staged() bool {
	return s.pb.GetSelections() != nil || s.fit != nil || s.weighing != nil
}

// planned makes the plan, which is all that the run may release: of a run with sums over
// samples, and of one with pure noise on a fit, which composes badly with Gaussian noise by
// other rules, and of one of stages alone, all of which is known.
func (s *runSpec) planned() error {
	pure := s.fit != nil && s.fit.kind != conclavev1.FitNoise_KIND_GAUSSIAN
	switch {
	case s.samples != nil || s.weighing != nil || pure || s.pb.GetMechanism() == nil:
	case s.pb.GetRounds() > 0:
		return fmt.Errorf("rounds is %d; only runs of sampled sums have a plan", s.pb.GetRounds())
	case s.pb.GetQueries() > 0:
		return fmt.Errorf("queries is %d; only runs of sampled sums or pure noise on a fit have a plan", s.pb.GetQueries())
	default:
		return nil
	}
	var plan []privacy.Event
	if e := s.pb.GetClassShareEpsilon(); e > 0 {
		plan = append(plan, privacy.Event{Kind: privacy.Laplace, Epsilon: e, Count: 1})
	}
	if s.embedding > 0 {
		plan = append(plan, privacy.Event{Kind: privacy.Gaussian, Sigma: s.embedding, Sensitivity: 1, Count: 1})
	}
	own, err := s.ownCost()
	if err != nil {
		return err
	}
	plan = append(plan, own...)
	for _, one := range []*sampled{s.samples, s.weighing} {
		if one == nil {
			continue
		}
		cost, err := one.cost()
		if err != nil {
			return err
		}
		plan = append(plan, cost...)
	}
	if q := s.pb.GetSelections(); q != nil {
		plan = append(plan, privacy.Event{Kind: privacy.Exponential, Epsilon: q.GetEpsilon(), Count: int64(q.GetCount())})
	}
	if s.fit != nil {
		plan = append(plan, s.fit.cost())
	}
	s.plan, s.budget.Filter = privacy.Merge(plan), privacy.FilterPLD
	return nil
}

// ownCost is what the run's own mechanism may cost where it answers no sums of samples.
func (s *runSpec) ownCost() ([]privacy.Event, error) {
	m, n := s.pb.GetMechanism(), s.pb.GetQueries()
	switch {
	case m == nil || s.samples != nil || s.embedding > 0 && n == 0 && s.mechanism == nil:
		return nil, nil
	case n == 0 || n > maxPlanned*maxQueries:
		return nil, fmt.Errorf("queries is %d; a run with a plan needs the number of its other questions", n)
	case s.mechanism == nil:
		sum, err := gnmax.NewGaussianSum(2*minGradientBound, s.multiplier)
		if err != nil {
			return nil, err
		}
		return sum.Cost(int64(n)), nil
	case m.GetKind() == conclavev1.Mechanism_KIND_CONFIDENT_GNMAX:
		return nil, errors.New("confident-gnmax and a plan do not go together: what a confident query costs is not known beforehand; use gnmax")
	}
	return s.mechanism.Worst(int64(n)), nil
}
