package report

import (
	"encoding/json"
	"fmt"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// checkFigures refuses what could not be drawn or written.
func (p Page) checkFigures() error {
	for _, r := range p.Rounds {
		if !text.Finite(r.EpsilonSpent) || r.EpsilonSpent < 0 {
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
		if err := c.Check(); err != nil {
			return err
		}
	}
	if w := p.Weights; w != nil && !(w.EffectiveSampleSize > 0 && text.Finite(w.EffectiveSampleSize) &&
		text.Finite(w.Largest) &&
		w.Zero >= 0) {
		return fmt.Errorf("weights: an effective sample size of %v, a largest of %v, %d of 0", w.EffectiveSampleSize,
			w.Largest, w.Zero)
	}
	for _, f := range p.Figures {
		if err := f.Check(); err != nil {
			return err
		}
	}
	if err := p.Correlations.Check(); err != nil {
		return err
	}
	if err := picture.CheckPanels(p.Points); err != nil {
		return err
	}
	// JSON has no word for infinity or for what is not a number.
	if _, err := json.Marshal(p.Evaluation); err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	return nil
}
