package question

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
)

// NewPushedSite is a site whose records are counted in a database, as long as the records have the given sum under
// the key.
func NewPushedSite(p *Public, rows *postgres.Pushed, key partition.Key, sum postgres.Sum, state string) *Site {
	p.Pushes = true
	return &Site{Public: p, UnitsOf: []int{rows.Units()}, State: state,
		Count: func(ctx context.Context, t *postgres.Tally) ([]int64, error) {
			return rows.Count(ctx, key.ForDatabase(), sum, t)
		}}
}

// Counted lets the database count.
func (s *Site) Counted(t *postgres.Tally) ([]int64, error) {
	ctx := s.context()
	sum, err := s.Count(ctx, t)
	switch {
	case err == nil:
		return sum, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %w", ErrRows, err)
}
