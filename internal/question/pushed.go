package question

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/partition/tally"
)

// NewPushedSite is a site whose records a database counts. count fails if the records have changed.
func NewPushedSite(p *Public, units int, state string, count func(context.Context, *tally.Tally) ([]int64, error),
) *Site {
	p.Pushes = true
	return &Site{Public: p, UnitsOf: []int{units}, State: state, Count: count}
}

// Counted lets the database count.
func (s *Site) Counted(t *tally.Tally) ([]int64, error) {
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
