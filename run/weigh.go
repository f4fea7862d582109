package run

import (
	"context"
)

// weigh makes the rows with their weights.
func (j *Job) weigh(ctx context.Context, p *post, trained trainer, ask *oracle, o Options) (*made, error) {
	r, err := p.make(ctx, j.Spec.Release.Rows)
	if err != nil {
		return nil, err
	}
	table, err := p.model.Table(r.x, r.classes)
	return &made{table: table}, err
}
