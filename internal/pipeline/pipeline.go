// Package pipeline holds what the students of all pipelines share: the
// questions they may ask, the conditional generators of tables and images with
// typed outputs, and the model folder from which more data can be sampled.
//
// The pipelines themselves are its sub-packages; start with
// [github.com/conclave-dp/conclave/internal/pipeline/pategan]. A pipeline sees releases
// only, through the [Oracle] it is given; it knows no transport and holds no
// real record, so everything it computes is post-processing of private
// answers.
package pipeline

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Pipeline is one way to train a generator from releases. A run.yaml names it, and has a
// section of its name. Package pipelines lists all of them.
type Pipeline struct {
	Name string
	// Options returns the defaults of its section.
	Options func() Options
	// New returns what a run of its options does for a problem.
	New func(Options, Problem) Training
	// Asks names the kinds of questions that its training may ask, and Kinds has those that
	// came with it: how its nodes answer them.
	Asks  []string
	Kinds []question.Kind
	// Model is the kind of model that its students learn.
	Model ModelKind
	// Warm is what its release is to runs of other pipelines, as a warm start; nil for none.
	Warm *WarmStart
	// TakesWarm marks a pipeline whose students take a warm start by others: they are a
	// [Starter]. WarmShare is the share of a run's epsilon that it costs on tables where the run
	// does not say; 0 for none.
	TakesWarm bool
	WarmShare float64
	// Teachers marks a pipeline whose nodes train a model on each part of their records. To others the
	// number of parts means nothing but the share of a node in a quorum.
	Teachers bool
	// TablesOnly marks a pipeline that does not make images.
	TablesOnly bool
	// NoDiscriminator says why its student has no discriminators for stages after the
	// training; empty where it keeps some. The options then are a [Keeper].
	NoDiscriminator string
	Words           Words
}

// Problem is what a run is to learn, and who teaches it.
type Problem struct {
	Run string
	// Encoder is that of the schema, Classes the number of its classes, 1 without a label.
	Encoder *encode.Encoder
	Classes int
	// Teachers is the number of the run's.
	Teachers int
	// Seed makes training repeatable. Noise never depends on it.
	Seed uint64
}

// Training is what a pipeline does for one run.
type Training interface {
	// Chosen are the options, with all that is left to be chosen: what is chosen may be
	// another in another version.
	Chosen() any
	// Quorum is the share of the teachers that a round needs, and how many seconds it waits for the rest.
	Quorum() (share, deadline float64)
	// Plan fills in what the training asks: it chooses what the run leaves to be chosen,
	// within the budget. The plan has its classes, its start and its stages.
	Plan(p *plan.Plan, budget privacy.Budget) error
	// Largest are the largest messages of its rounds with a node of so many teachers.
	Largest(p *plan.Plan, teachers int) Largest
	// Student makes an untrained one.
	Student(p *plan.Plan) (Student, error)
}

// Student learns a generator from releases.
type Student interface {
	// Save and Restore keep the student's state; identity names all it depends on.
	Save(path, identity string) error
	Restore(path, identity string) (bool, error)
	// Model is what was learned so far.
	Model(*partition.Schema) (Model, error)
	// Rounds is the number of rounds learned from, besides that of the class counts.
	Rounds() int
	// Notes are what the student keeps of its releases.
	Notes() *Learned
	// Learn asks the rounds of the plan, or of a closed run only those that were released.
	Learn(ctx context.Context, ask Asker, rounds int, keep func() error, progress func(Progress)) error
}

// Starter is a student that can begin with more than the class counts: with a start that its own
// pipeline planned, or with a warm start.
type Starter interface{ StartWith(start Start) }

// Start is what a student begins with where part of the budget buys it more than the
// class counts: a release in round 0 that its generator is fitted to before it learns of
// anything else. What was released stays with it, for nothing more has to be paid for it.
type Start interface {
	// Begin asks in round 0, unless notes say that this was done, writes the class counts
	// to notes, and fits the learner. It calls keep now and then, and goes on after a
	// restore where it was.
	Begin(ctx context.Context, notes *Learned, l *Learner, rng *rand.Rand, keep func() error) error
	// Hold takes a step that keeps the generator close to the release.
	Hold(l *Learner, rng *rand.Rand)
	// Tensors adds its state to a checkpoint's, Restore takes it from there. Notes are
	// those of the same checkpoint.
	Tensors(set *safetensors.Set)
	Restore(set *safetensors.Set, notes *Learned) error
}

// Progress tells how a run stands after a round.
type Progress struct {
	// Round counts rounds of answers from 1 to Rounds.
	Round, Rounds int
	EpsilonSpent  float64
	Answered      int
	Queries       int
}

// Voted is a student that knows how the votes of rounds were spread.
type Voted interface{ Votes() []ReleasedVotes }

// ReleasedVotes is what a round of votes released: noisy shares, and never a vote.
type ReleasedVotes struct {
	Round uint64
	// Shares are those of the answered queries.
	Shares []float32
	// Noise is the standard deviation of the noise of a share.
	Noise float64
}

// Scored is a training whose discriminators may be so large that few can be sent.
type Scored interface {
	// ScoredWeights is the number of weights of a discriminator that stages score records by.
	ScoredWeights() int
}

// Words describe the releases of a pipeline's training in reports.
type Words struct {
	// Answers is what nodes send: "votes".
	Answers string
	// Baseline is what takes their place in a baseline run: "coin flips".
	Baseline string
}

// Options are a section of a run.yaml: a pointer to a struct with yaml tags.
type Options interface {
	// Validate reports every option that cannot work.
	Validate() error
}

// Defaults makes sections of options that begin as defaults returns them.
func Defaults[T Options](defaults func() T) func() Options {
	return func() Options {
		o := defaults()
		return any(&o).(Options)
	}
}

// Keeper are options that say how many of the student's discriminators are kept for the
// stages after the training.
type Keeper interface{ Kept() int }

// WarmStart is a pipeline's release as what runs of other pipelines may begin with, in place of the
// class counts.
type WarmStart struct {
	// Section is that of a run.yaml with the option of its share; it may be the pipeline's own, and
	// Options then is nil.
	Section string
	// Options returns the defaults of the section.
	Options func() Options
	// Share is the share of epsilon that the section's option sets, and the name of that option; 0 means none, -1
	// leaves it to be chosen.
	Share func(Options) plan.Share
	// Kind is that of its question.
	Kind string
	// Plan returns what a run with this noise begins with. Here and below, the options
	// are those of its pipeline.
	Plan func(o Options, p Problem, noise privacy.Event) (*plan.Start, error)
	// Largest are the messages of what was planned.
	Largest func(o Options, p Problem, s *plan.Start) Largest
	// Begin makes the start that was planned. It fits the generator in Steps; watch is told
	// how far that is.
	Begin func(o Options, p Problem, s *plan.Start, ask Asker, watch func(done, steps int)) (Start, error)
	Steps func(o Options, p Problem) int
}
