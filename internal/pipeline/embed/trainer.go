package embed

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Trainer is the state of a student of `pipeline: embed`: a generator that only has a
// start.
type Trainer struct {
	pipeline.Learned
	classes int
	source  *rand.PCG
	rng     *rand.Rand
	learner *pipeline.Learner
	start   pipeline.Start
}

// New returns an untrained student. The seed makes training repeatable and protects
// nothing.
func New(opts Options, e *encode.Encoder, classes int, seed uint64) (*Trainer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.ChosenFor(e, classes, 0) // the features are the start's
	if err := opts.CheckFor(e, classes); err != nil {
		return nil, err
	}
	t := &Trainer{classes: classes, source: rand.NewPCG(seed, 0xe3bed)}
	t.rng = rand.New(t.source)
	g, err := pipeline.NewGenerator(e, opts.generator(classes), t.rng)
	if err != nil {
		return nil, err
	}
	t.learner = pipeline.NewLearner(g, opts.Fit.StepSize)
	t.learner.KeepAverage(opts.Fit.Average)
	return t, nil
}

// StartWith gives the student its start. Call it before anything else.
func (t *Trainer) StartWith(s pipeline.Start) { t.start = s }

// Generator returns the moving average of the generator.
func (t *Trainer) Generator() *pipeline.Generator { return t.learner.Averaged() }

// Model is the generator with the released class shares.
func (t *Trainer) Model(schema *partition.Schema) (pipeline.Model, error) {
	return pipeline.NewNetwork(schema, t.Generator(), t.Shares())
}

// Rounds is 0: there are none after that of the start.
func (t *Trainer) Rounds() int { return 0 }

// Run asks and fits the generator to the answer. It calls keep, which may store the state,
// now and then. A restored trainer goes on where it was.
func (t *Trainer) Run(ctx context.Context, keep func() error) error {
	if err := t.start.Begin(ctx, &t.Learned, t.learner, t.rng, keep); err != nil {
		return err
	}
	return keep()
}

const checkpointKey = "embed"

// Save writes the whole state to path, so that a crash leaves the old or the new
// checkpoint. identity names the run and all that its state depends on.
func (t *Trainer) Save(path, identity string) error {
	c, set, err := pipeline.NewCheckpoint(identity, t.source, t.learner, t.start, t.Learned, 0)
	if err != nil {
		return err
	}
	return pipeline.SaveCheckpoint(path, checkpointKey, c, set)
}

// Restore loads the state that Save wrote. It reports false when there is none, and an
// error matching [pipeline.ErrCheckpoint] when it is of another run or
// [pipeline.ErrDamaged] when it is not as it was saved.
func (t *Trainer) Restore(path, identity string) (bool, error) {
	var c pipeline.Checkpoint
	set, err := pipeline.LoadCheckpoint(path, checkpointKey, pipeline.AskAnew, &c)
	if set == nil || err != nil {
		return false, err
	}
	if err := c.Restore(path, identity, set, t.source, t.learner, t.start, t.classes); err != nil {
		return false, err
	}
	t.Learned = c.Learned
	return true, nil
}
