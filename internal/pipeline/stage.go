package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/reducer"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

// Stage is a stage that may follow the training, with its own section in a run.yaml. All functions but Options may
// be nil.
type Stage struct {
	// Name is the name of the section.
	Name string
	// Options returns the defaults of the section.
	Options func() Options
	// Follows says why the stage comes after those listed before it.
	Follows string
	// Discriminators tells whether a run's stage needs the discriminators that the student stores.
	Discriminators func(Followed) bool
	// Validate reports conflicts with the rest of the run.
	Validate func(Options, Followed) []error
	// Check reports what the schema does not allow, before anything is spent.
	Check func(Options, Followed) []error
	// Asks lists the questions that it may ask of nodes; empty if it costs nothing.
	Asks []StageQuestion
	// Kinds are the kinds of questions that the stage adds: how nodes answer them. Reducers compute, at
	// aggregators, the answers of kinds that take several passes.
	Kinds    []question.Kind
	Reducers []reducer.Reducer
	// Share is the option for the part of the budget that the stage costs by itself after a run; its value is 0 if
	// it costs nothing.
	Share func(Options, Followed) plan.Share
	// Price plans what the stage asks after a run.
	Price func(Options, Followed, privacy.Budget) (plan.Stages, error)
	// Messages describes the planned messages.
	Messages func(Options, Followed, plan.Stages) []StageMessages
	// Apply turns the rows so far into other rows, for a stage that a run lists under post.
	Apply func(ctx context.Context, o Options, so Source, s *Session) (Source, error)
	// Weigh draws the rows that are released, and weights them, for a stage that a run names
	// by its method of weights; Weighted names such rows.
	Weigh    func(ctx context.Context, o Options, draw func(n int) (Rows, error), s *Session) (*Weighed, error)
	Weighted func(Options, Followed) string
	// Measure asks for figures about the released rows, for a stage that a run enables by a share above 0; none if
	// the release tells nothing. It does not change rows.
	Measure func(ctx context.Context, o Options, rows *Weighed, s *Session) ([]Figure, error)
}

// NoWeights is the method of weights of a run that weights no rows.
const NoWeights = "none"

// Weighed are rows with weights, or drawn by them.
type Weighed struct {
	// Table are the rows, Unweighted those before they were drawn by weight.
	Table, Unweighted *partition.Table
	// Weights has a weight for each row; nil if rows were drawn by weight.
	Weights []float64
}

// Figure compares the released rows with the real ones. The budget paid for it, so it may be shared.
type Figure struct {
	// Name describes the figure in a report. The figure is a share from 0 to 1.
	Name string `json:"name"`
	// Value is an estimate; Low to High is its confidence interval at 95%.
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Epsilon is the separate price of the release behind the figure; several figures may share it.
	Epsilon float64 `json:"epsilon"`
}

// String is the text of a report after the figure's name.
func (f Figure) String() string {
	return fmt.Sprintf("%.1f%% (%.1f to %.1f), paid for with epsilon %s", 100*f.Value, 100*f.Low, 100*f.High,
		text.Figure(f.Epsilon))
}

// Check refuses values that are not shares.
func (f Figure) Check() error {
	switch {
	case f.Name == "":
		return errors.New("a quality figure has no name")
	case !(0 <= f.Low && f.Low <= f.Value && f.Value <= f.High && f.High <= 1):
		return errors.New("a figure is not a share within its interval: " + f.Name)
	case !(f.Epsilon > 0) || math.IsInf(f.Epsilon, 0):
		return errors.New("a figure has no price: " + f.Name)
	}
	return nil
}

// StageMessages describe the messages that a stage exchanges with a node.
type StageMessages struct {
	AnswerName, AnswerContent string
	// Times is the largest number of the node's answers, with Numbers numbers of at most Largest.
	Times, Numbers int
	Largest        int64
	// Asked and AskedContent describe what the node is sent.
	Asked, AskedContent string
}

// Shared are options of a stage that set its share of a run's budget.
type Shared interface {
	// TakeAll gives the stage the whole budget, for a run of its own.
	TakeAll()
}

// Followed is what a stage knows about the run that it follows.
type Followed struct {
	Problem
	// Schema is nil until it is read.
	Schema *partition.Schema
	// Post and Weights are the stages of the run.
	Post    []string
	Weights string
	// Rows is the number of rows that are released.
	Rows int
	// Private marks a release that may be published. Real marks a run that names real rows at the student.
	Private, Real bool
	// Masked means that the aggregator sees sums only with noise.
	Masked bool
	// Pipeline is the pipeline of the training, Kept the number of stored discriminators, and ScoredWeights their
	// size; 0 if they are small.
	Pipeline            string
	Kept, ScoredWeights int
}

// StageQuestion is one kind of question of a stage.
type StageQuestion struct {
	// Stage names the question in a run's plan, Kind is its kind.
	Stage, Kind string
	// Says describes a number of releases in a report; the longest has the given number of entries.
	Says func(releases int, entries int64) string
}

// ErrStage means that a stage fails, and would fail again.
var ErrStage = errors.New("the stage after training failed")

// Session is the state that the stages after a run's training share.
type Session struct {
	Followed
	Model Model
	// Pairs are the student's generators and discriminators, nil if no stage needs them.
	Pairs []Pair
	// Learned are the notes of releases; stages add theirs.
	Learned *Learned
	// Real are real rows at the student, nil for none. NOT PRIVATE.
	Real *partition.Table
	// Ask asks the planned questions of the stages.
	Ask  Asker
	Plan plan.Stages
	// Surplus is the factor by which the noise of a masked run's sums exceeds the charged noise; 0 for other
	// runs.
	Surplus float64
	// Watch is called with the progress of a stage, in rounds of something.
	Watch func(of string, done, rounds int)
	// Notes say what the stages did, for the report.
	Notes []string
}

// Note adds a sentence to the report.
func (s *Session) Note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Scores are the probabilities that the discriminators give rows, shape [pairs, rows].
func (s *Session) Scores(r Rows) [][]float64 {
	const batch = 4096
	width := s.Encoder.Width()
	all := make([][]float64, len(s.Pairs))
	for j, pair := range s.Pairs {
		for from := 0; from < len(r.Classes); from += batch {
			to := min(len(r.Classes), from+batch)
			all[j] = pair.Probabilities(all[j], r.X[from*width:to*width], r.Classes[from:to])
		}
	}
	return all
}
