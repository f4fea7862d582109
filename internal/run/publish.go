package run

import (
	"context"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/run/results"
)

type paidIn struct {
	run string
	// earlier are the runs that it went on from.
	earlier []string
	lines   [][]byte
}

// publish writes all files of the run.
func (j *Job) publish(ctx context.Context, model pipeline.Model, trained pipeline.Student, made *results.Made,
	o Options) (*results.Result, error) {
	lines, err := o.Client.Ledger(ctx, j.Spec.Name)
	if err != nil {
		return nil, err
	}
	return j.publishCharged(ctx, model, trained, made, paidIn{run: j.Spec.Name, lines: lines}, o)
}

func (j *Job) publishCharged(ctx context.Context, model pipeline.Model, trained pipeline.Student, made *results.Made,
	paid paidIn, o Options) (*results.Result, error) {
	s := j.Spec
	r := &results.Release{
		Facts: certificate.Facts{
			Run: paid.run, Earlier: paid.earlier, Pipeline: s.Pipeline, Guarantee: s.Privacy.Guarantee,
			Unit:     s.Privacy.Unit,
			Teachers: s.Teachers,
		},
		Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Config: s.Text, Ledger: paid.lines,
		Learned: trained.Notes(), Shares: sharesOf(trained), Schema: j.Schema, Model: model,
		Made: made, Name: releasedOf(s), Real: j.real, Out: o.Out,
	}
	if o.Coin {
		r.Facts.Votes = certificate.VotesCoin
	}
	if !s.Release.Private {
		r.Facts.Run = s.Name
		return r.Compare(ctx)
	}
	return r.Publish(ctx)
}

// sharesOf summarizes the answers of the rounds whose votes the student knows.
func sharesOf(trained pipeline.Student) map[uint64]*report.Shares {
	voted, ok := trained.(pipeline.Voted)
	if !ok {
		return nil
	}
	shares := map[uint64]*report.Shares{}
	for _, r := range voted.Votes() {
		shares[r.Round] = report.SharesOf(r.Shares, r.Noise)
	}
	return shares
}
