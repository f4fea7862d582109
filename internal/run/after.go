package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// after runs the stages after the training, makes the rows and measures them. If a stage fails for good, with
// [pipeline.ErrStage], it also returns the rows of the earlier stages, or nil.
func (j *Job) after(ctx context.Context, l learned, ask *asker, o Options) (*results.Made, error) {
	s := j.Spec
	if len(s.Post) == 0 && s.Weights == pipeline.NoWeights && len(shares(s, j.Schema)) == 0 {
		table, err := l.model.Sample(s.Release.Rows, nil, rand.New(rand.NewPCG(s.Seed, 0xda7a)))
		return &results.Made{Table: table}, err
	}
	// A waiting status refers to the current stage.
	var last Status
	watch := o.Watch
	o.Watch = func(s Status) { last = s; watch(s) }
	ask.waiting = func(p *conclavev1.Progress) {
		if p.WaitingForQuorum {
			watch(last.waitingFor(p))
		}
	}
	session, err := j.session(l, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", pipeline.ErrStage, err)
	}
	session.Ask, session.Plan, session.Surplus = ask, j.Plan.Stages, j.Plan.Surplus
	made, err := j.rows(ctx, l, session)
	if err != nil {
		return made, err
	}
	made.Figures, err = measured(ctx, s, j.Schema, made, session)
	made.Notes = session.Notes
	return made, err
}

// rows makes the rows with the stages that move or weigh them.
func (j *Job) rows(ctx context.Context, l learned, session *pipeline.Session) (*results.Made, error) {
	s := j.Spec
	if len(s.Post) == 0 && s.Weights == pipeline.NoWeights {
		table, err := l.model.Sample(s.Release.Rows, nil, rand.New(rand.NewPCG(s.Seed, 0xda7a)))
		return &results.Made{Table: table}, err
	}
	sources := []pipeline.Source{session.Fresh()}
	for _, name := range s.Post {
		stage := pipelines.StageNamed(name)
		next, err := stage.Apply(ctx, s.Sections[name], sources[len(sources)-1], session)
		if err != nil {
			return nil, err
		}
		sources = append(sources, next)
	}
	drawn := &drawing{Source: sources[len(sources)-1], s: session}
	m, err := weigh(ctx, s, drawn, session)
	if errors.Is(err, pipeline.ErrStage) || student.NothingMore(err) {
		table, tableErr := j.soFar(ctx, drawn, sources, session)
		if table == nil || tableErr != nil {
			return nil, errors.Join(err, tableErr)
		}
		session.Note("The next stage failed, and the rows are those before it.")
		return &results.Made{Table: table, Unweighted: table, Notes: session.Notes}, err
	}
	if err != nil {
		return nil, err
	}
	m.Before, err = j.before(ctx, sources, session, m.Unweighted)
	return m, err
}

// measured returns the figures of the rows, from the measuring stages that the run pays for.
func measured(ctx context.Context, s *runfile.Spec, schema *partition.Schema, made *results.Made,
	session *pipeline.Session) (all []pipeline.Figure, err error) {
	for _, stage := range pipelines.Stages {
		if stage.Measure == nil {
			continue
		}
		options := s.Sections[stage.Name]
		share := stage.Share(options, s.Followed(schema)).Value
		if share == 0 {
			continue
		}
		rows := &pipeline.Weighed{Table: made.Table, Weights: made.Weights}
		figures, err := stage.Measure(ctx, options, rows, session)
		if err != nil {
			return nil, err
		}
		for _, f := range figures {
			f.Epsilon = share * s.Privacy.Epsilon
			all = append(all, f)
		}
	}
	return all, nil
}

// session is the state that the stages share.
func (j *Job) session(l learned, o Options) (*pipeline.Session, error) {
	s, status := j.Spec, Status{Epsilon: j.Spec.Privacy.Epsilon}
	session := &pipeline.Session{
		Followed: s.Followed(j.Schema), Model: l.model, Learned: l.notes, Real: j.real.Train,
		Watch: func(of string, done, rounds int) {
			status.Of, status.Round, status.Rounds, status.EpsilonSpent = of, done, rounds, l.notes.Spent
			o.Watch(status)
		},
	}
	if !s.NeedsDiscriminators() {
		return session, nil
	}
	with, ok := l.student.(pipeline.Paired)
	if !ok {
		return nil, fmt.Errorf("the student of %s keeps no discriminators", s.Pipeline)
	}
	var err error
	if session.Pairs, err = with.Pairs(); err == nil && len(session.Pairs) == 0 {
		err = fmt.Errorf("no discriminators are stored: the run had too few rounds, or %s.student.keep is 0",
			s.Pipeline)
	}
	return session, err
}

// drawing is a source that records what it drew last, for the report.
type drawing struct {
	pipeline.Source
	s    *pipeline.Session
	made pipeline.Rows
}

func (d *drawing) draw(ctx context.Context, n int) (r pipeline.Rows, err error) {
	var note string
	if d.made, note, err = d.Draw(ctx, n); note != "" {
		d.s.Notes = append(d.s.Notes, note)
	}
	return d.made, err
}

// soFar returns the rows of the stages that finished before one failed, or none. A paid stage is not lost when the
// next one fails.
func (j *Job) soFar(ctx context.Context, drawn *drawing, sources []pipeline.Source,
	session *pipeline.Session) (*partition.Table, error) {
	n, width := j.Spec.Release.Rows, session.Encoder.Width()
	r := drawn.made
	if len(sources) == 1 {
		return nil, nil
	}
	if len(r.Classes) < n { // the last one failed
		if len(sources) == 2 {
			return nil, nil
		}
		var err error
		if r, _, err = sources[len(sources)-2].Draw(ctx, n); err != nil {
			return nil, err
		}
	}
	r = r.First(n, width)
	return session.Table(r.X, r.Classes)
}

// weigh draws the rows, and weighs them with the spec's weights stage.
func weigh(ctx context.Context, s *runfile.Spec, drawn *drawing, session *pipeline.Session) (*results.Made, error) {
	draw := func(n int) (pipeline.Rows, error) { return drawn.draw(ctx, n) }
	if s.Weights == pipeline.NoWeights {
		r, err := draw(s.Release.Rows)
		if err != nil {
			return nil, err
		}
		table, err := session.Table(r.X, r.Classes)
		return &results.Made{Table: table, Unweighted: table}, err
	}
	stage := pipelines.Weighting()
	w, err := stage.Weigh(ctx, s.Sections[stage.Name], draw, session)
	if err != nil {
		return nil, err
	}
	return &results.Made{Table: w.Table, Unweighted: w.Unweighted, Weights: w.Weights}, nil
}
