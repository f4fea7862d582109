package report

import (
	"encoding/json"
	"fmt"
)

// checkFigures refuses what could not be drawn or written.
func (p Page) checkFigures() error {
	for _, r := range p.Rounds {
		if !finite(r.EpsilonSpent) || r.EpsilonSpent < 0 {
			return fmt.Errorf("round %d: epsilon spent is %v", r.Round, r.EpsilonSpent)
		}
		if r.Answered < 0 || r.Queries < r.Answered {
			return fmt.Errorf("round %d: %d of %d queries answered", r.Round, r.Answered, r.Queries)
		}
		if err := r.Shares.check(); err != nil {
			return fmt.Errorf("round %d: %w", r.Round, err)
		}
	}
	for _, c := range p.Columns {
		for _, b := range c.Bars {
			if !finite(b.Synthetic) || !finite(b.Real) || b.Synthetic < 0 || b.Real < 0 {
				return fmt.Errorf("column %s: a bar is not a share", c.Name)
			}
		}
	}
	if w := p.Weights; w != nil && !(w.EffectiveSampleSize > 0 && finite(w.EffectiveSampleSize) && finite(w.Largest) &&
		w.Zero >= 0) {
		return fmt.Errorf("weights: an effective sample size of %v, a largest of %v, %d of 0", w.EffectiveSampleSize,
			w.Largest, w.Zero)
	}
	if err := p.Correlations.check(); err != nil {
		return err
	}
	if err := p.checkPoints(); err != nil {
		return err
	}
	// JSON has no word for infinity or for what is not a number.
	if _, err := json.Marshal(p.Evaluation); err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	return nil
}
