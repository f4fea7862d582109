package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/drs"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// made are the rows of a release.
type made struct {
	table *partition.Table
	// unweighted are the rows before they had weights, or were drawn by them.
	unweighted *partition.Table
	// before are the rows before the stages and between them.
	before []snapshot
	// weights has a weight for each row; nil for none.
	weights []float64
	// notes say what the stages did, for the report.
	notes []string
}

// errStage says that a stage cannot end otherwise, however often it is begun.
var errStage = errors.New("the stage after training failed")

// after lets the stages follow the training, and makes the rows. Where a stage fails for
// good, with errStage, it also returns the rows of those before it, nil for none.
func (j *Job) after(ctx context.Context, model *pipeline.Model, trained trainer, ask *oracle, o Options) (*made, error) {
	s := j.Spec
	if len(s.Post) == 0 && s.Weights == iw.None {
		table, err := model.Sample(s.Release.Rows, pipeline.AnyClass, rand.New(rand.NewPCG(s.Seed, 0xda7a)))
		return &made{table: table}, err
	}
	// What waits is the stage that is under way.
	var last Status
	watch := o.Watch
	o.Watch = func(s Status) { last = s; watch(s) }
	ask.waiting = func(p *conclavev1.Progress) {
		if p.WaitingForQuorum {
			watch(last.waitingFor(p))
		}
	}
	p, err := newPost(s, model, trained)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStage, err)
	}
	if s.boosts() {
		status := Status{Of: "selection", Rounds: Section[pgb.StageOptions](s).Rounds, Epsilon: s.Privacy.Epsilon, EpsilonSpent: trained.Notes().Spent}
		o.Watch(status)
		err := p.boost(ctx, j.selector(p, trained, ask), func(done, rounds int) {
			status.Round, status.Rounds, status.EpsilonSpent = done, rounds, trained.Notes().Spent
			o.Watch(status)
		})
		if errors.Is(err, pgb.ErrScores) {
			err = fmt.Errorf("%w: %w", errStage, err)
		}
		if err != nil {
			return nil, err
		}
	}
	m, err := j.weigh(ctx, p, trained, ask, o)
	if errors.Is(err, drs.ErrTries) || errors.Is(err, drs.ErrScores) {
		err = fmt.Errorf("%w: %w", errStage, err)
	}
	if errors.Is(err, errStage) || errors.Is(err, student.ErrOverBudget) {
		table, tableErr := p.soFar(s.Release.Rows)
		if table == nil || tableErr != nil {
			return nil, errors.Join(err, tableErr)
		}
		return &made{table: table, unweighted: table, notes: append(p.notes, "The stage after that failed, and the rows are as they were before it.")}, err
	}
	if err != nil {
		return nil, err
	}
	if m.before, err = p.before(m.unweighted); err != nil {
		return nil, err
	}
	m.notes = append(p.notes, m.notes...)
	return m, nil
}

// selector is who selects discriminators.
func (j *Job) selector(p *post, trained trainer, ask *oracle) pgb.Selector {
	if !Section[pgb.StageOptions](j.Spec).Private {
		p.notes = append(p.notes, "NOT PRIVATE: boosting took the best discriminator by the real rows of evaluate.train.")
		return pgb.BestResponse(p.realScores(j.real.train))
	}
	notes := trained.Notes()
	n, err := records(Section[pgb.StageOptions](j.Spec).Records, notes)
	return &selector{oracle: ask, learned: notes, first: uint64(len(notes.Receipts)), records: n, scored: scoredOf(p.pairs, p.width), failed: err}
}
