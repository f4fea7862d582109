package quality

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
)

// measure asks for the sum, and computes the figures of rows.
func measure(ctx context.Context, _ pipeline.Options, rows *pipeline.Weighed, s *pipeline.Session) ([]pipeline.Figure,
	error) {
	planned, ok := s.Plan.Of(name)
	if !ok {
		return nil, errors.New("quality: the run's plan does not include the quality figure; start a new run")
	}
	if s.Ask.Baseline() {
		s.Note("There is no quality figure, because a baseline does not use records.")
		return nil, nil
	}
	counting, err := marginals.NewCounting(s.Schema, parts, planned.Mechanism.Sigma)
	if err != nil {
		return nil, fmt.Errorf("quality: %w", err)
	}
	s.Watch("figure", 0, 1)
	release, err := s.Ask.Ask(ctx, name, counting.Round(uint64(len(s.Learned.Receipts))))
	if err != nil {
		return nil, err
	}
	values := release.GetSum().GetValues()
	if len(values) != counting.Entries() {
		return nil, fmt.Errorf("quality: a release of %d numbers for %d cells; install matching versions of student "+
			"and aggregator", len(values), counting.Entries())
	}
	known := unitsOf(s.Learned) // from earlier releases
	s.Learned.Took(pipeline.PaidBy(release))
	s.Watch("figure", 1, 1)
	sum := make([]float64, len(values))
	for i, v := range values {
		sum[i] = float64(v)
	}
	columns, pairs := counting.Tables(sum, planned.Mechanism.Sigma*cmp.Or(s.Surplus, 1), rows.Table, rows.Weights)
	var figures []pipeline.Figure
	for i, of := range []struct {
		name   string
		tables []marginals.Table
	}{{"Share of rows in the wrong cell, per column", columns},
		{"Share of rows in the wrong cell, per column with the label", pairs}} {
		if len(of.tables) == 0 {
			continue
		}
		d, err := distance(of.tables, known, rand.New(rand.NewPCG(s.Seed, 0x9a117+uint64(i))))
		if errors.Is(err, errHidden) {
			s.Note("The quality figure is meaningless: %v. A larger quality.budget has less noise.", err)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		figures = append(figures, pipeline.Figure{Name: of.name, Value: d.middle, Low: d.low, High: d.high})
	}
	return figures, nil
}

// unitsOf estimates the number of units from class counts. Their noise is Laplace or Gaussian: its deviation is
// at most the root of 2 times the scale, for each class.
func unitsOf(l *pipeline.Learned) estimate {
	if l.CountScale == 0 {
		return estimate{}
	}
	sum := 0.0
	for _, c := range l.Counts {
		sum += c
	}
	return estimate{sum, l.CountScale * math.Sqrt(2*float64(len(l.Counts)))}
}
