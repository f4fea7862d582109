// Package pipeline holds the common part of the students of all pipelines: the questions they may ask, the
// conditional generators of tables and images with typed outputs, and the model folder from which more data can
// be sampled.
//
// The pipelines themselves are its sub-packages; start with
// [github.com/conclave-dp/conclave/internal/pipeline/pategan]. A pipeline sees only releases, through its
// [Oracle]. It knows no transport and holds no real record, so everything it computes is post-processing of
// private answers.
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

// Pipeline is one way to train a generator from releases. A run.yaml names it, and has a section with its name.
// Package pipelines lists all of them.
type Pipeline struct {
	Name string
	// Options returns the defaults of its section.
	Options func() Options
	// New returns the training of a run with these options for a problem.
	New func(Options, Problem) Training
	// Asks names the kinds of questions that its training may ask. Kinds has the kinds that it adds: how its
	// nodes answer them.
	Asks  []string
	Kinds []question.Kind
	// Model is the kind of model that its students learn.
	Model ModelKind
	// Warm makes its release a warm start for runs of other pipelines; nil for none.
	Warm *WarmStart
	// TakesWarm marks a pipeline whose students can use the warm start of another: they are a [Starter].
	// WarmShare is the default share of a run's epsilon that it costs on tables; 0 for none.
	TakesWarm bool
	WarmShare float64
	// Teachers marks a pipeline whose nodes train a model on each part of their records. For other pipelines
	// the number of parts is only the share of a node in a quorum.
	Teachers bool
	// TablesOnly marks a pipeline that does not make images.
	TablesOnly bool
	// NoDiscriminator says why its student has no discriminators for stages after the training. It is empty if
	// the student stores some; the options then are a [Keeper].
	NoDiscriminator string
	Words           Words
}

// Problem is what a run has to learn, and its number of teachers.
type Problem struct {
	Run string
	// Encoder is the encoder of the schema. Classes is the number of its classes, 1 without a label.
	Encoder *encode.Encoder
	Classes int
	// Teachers is the number of teachers of the run.
	Teachers int
	// Records is the public number of records, or of units; 0 if the run does not state one.
	Records int
	// Seed makes training repeatable. Noise never depends on it.
	Seed uint64
}

// Training is what a pipeline does for one run.
type Training interface {
	// Chosen returns the options with every unset value chosen. Another version may choose differently.
	Chosen() any
	// Quorum is the share of the teachers that a round needs, and how many seconds it waits for the rest.
	Quorum() (share, deadline float64)
	// Plan fills in what the training asks. It chooses unset values within the budget. The plan has its
	// classes, its start and its stages.
	Plan(p *plan.Plan, budget privacy.Budget) error
	// Largest returns the largest messages of its rounds with a node of this many teachers.
	Largest(p *plan.Plan, teachers int) Largest
	// Student returns an untrained student.
	Student(p *plan.Plan) (Student, error)
}

// Student learns a generator from releases.
type Student interface {
	// Save and Restore store and load the student's state; identity names everything it depends on.
	Save(path, identity string) error
	Restore(path, identity string) (bool, error)
	// Model returns what the student has learned so far.
	Model(*partition.Schema) (Model, error)
	// Rounds is the number of rounds learned from, without the round of class counts.
	Rounds() int
	// Notes returns what the student stores about its releases.
	Notes() *Learned
	// Learn asks the rounds of the plan. For a closed run it asks only the released ones.
	Learn(ctx context.Context, ask Asker, rounds int, keep func() error, progress func(Progress)) error
}

// Starter is a student that can begin with more than the class counts: with a start that its own pipeline
// planned, or with a warm start.
type Starter interface{ StartWith(start Start) }

// Start is what a student begins with if part of the budget pays for more than the class counts: a release in
// round 0 to which its generator is fitted before anything else. The student retains the release, since using
// it again costs nothing.
type Start interface {
	// Begin asks in round 0, unless notes say that this was done, writes the class counts to notes, and fits
	// the learner. It calls keep from time to time, and resumes after a restore.
	Begin(ctx context.Context, notes *Learned, l *Learner, rng *rand.Rand, keep func() error) error
	// Hold takes a step that keeps the generator close to the release.
	Hold(l *Learner, rng *rand.Rand)
	// Tensors adds its state to a checkpoint, and Restore reads it back. Notes are those of the same
	// checkpoint.
	Tensors(set *safetensors.Set)
	Restore(set *safetensors.Set, notes *Learned) error
}

// Progress is the state of a run after a round.
type Progress struct {
	// Round counts rounds of answers from 1 to Rounds.
	Round, Rounds int
	EpsilonSpent  float64
	Answered      int
	Queries       int
}

// Voted is a student that knows the released vote shares of rounds.
type Voted interface{ Votes() []ReleasedVotes }

// ReleasedVotes is the release of a round of votes: noisy shares, and never a vote.
type ReleasedVotes struct {
	Round uint64
	// Shares are the shares of the answered queries.
	Shares []float32
	// Noise is the standard deviation of the noise of a share.
	Noise float64
}

// Scored is a training whose discriminators may be so large that few fit into a message.
type Scored interface {
	// ScoredWeights is the number of weights of a discriminator with which stages score records.
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

// Defaults returns a function that makes a section of options with these defaults.
func Defaults[T Options](defaults func() T) func() Options {
	return func() Options {
		o := defaults()
		return any(&o).(Options)
	}
}

// Keeper are options that say how many of the student's discriminators are stored for the stages after the
// training.
type Keeper interface{ Kept() int }

// WarmStart makes a pipeline's release a start for runs of other pipelines, in place of the class counts.
type WarmStart struct {
	// Section is the section of a run.yaml with the option of its share. It may be the pipeline's own section,
	// and Options then is nil.
	Section string
	// Options returns the defaults of the section.
	Options func() Options
	// Share is the share of epsilon that the section's option sets, and the name of that option; 0 means none,
	// -1 lets the pipeline choose.
	Share func(Options) plan.Share
	// Kind is the kind of its question.
	Kind string
	// Plan returns the start of a run with this noise. Here and below, the options are those of its pipeline.
	Plan func(o Options, p Problem, noise privacy.Event) (*plan.Start, error)
	// Largest returns the messages of the planned start.
	Largest func(o Options, p Problem, s *plan.Start) Largest
	// Begin makes the planned start. It fits the generator in Steps; watch receives the progress.
	Begin func(o Options, p Problem, s *plan.Start, ask Asker, watch func(done, steps int)) (Start, error)
	Steps func(o Options, p Problem) int
}
