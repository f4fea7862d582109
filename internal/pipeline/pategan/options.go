package pategan

import (
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Mechanism names how votes become releases.
type Mechanism string

// The mechanisms.
const (
	LNMax          Mechanism = "lnmax"
	GNMax          Mechanism = "gnmax"
	ConfidentGNMax Mechanism = "confident-gnmax"
)

// Vote names how teachers vote.
type Vote string

// The rules of voting; each casts one vote per teacher and query.
const (
	Calibrated Vote = "calibrated"
	Relative   Vote = "relative"
	Plain      Vote = "plain"
)

// Options are the section `pategan:` of a run.yaml. This section configures `pipeline: pategan`; see docs/pategan.md.
type Options struct {
	// Mechanism is how noise is added. `gnmax`: Gaussian noise, the cheapest for many labels. `lnmax`: Laplace
	// noise, as in the paper; costs are pure DP and grow faster with the labels. `confident-gnmax`: charges little
	// for a query on which teachers disagree, but leaves it without an answer.
	Mechanism Mechanism `yaml:"mechanism"`
	// Votes is how a teacher votes. `relative`: it calls the better half of the round's queries of a class real, by
	// its own scores, so votes are balanced. `calibrated`: it calls a query real with the probability that its score
	// gives, relative to its own median; this shows how large a difference is, but with a weaker signal. `plain`: it
	// calls scores above 0 real, as in the paper; teachers soon call everything fake. The cost is the same.
	Votes Vote `yaml:"votes"`
	// Release is what a round releases. `histogram`: the noisy counts. `winner`: one bit per query, as in the paper.
	// The cost is the same.
	Release string `yaml:"release"`
	// Labels is the number of queries in the whole run. More labels mean more noise on each. 0 takes
	// (epsilon x teachers)^2 / 1000, at least 256 and at most 2048.
	Labels int `yaml:"labels"`
	// Queries is the number of queries in a round. Fewer queries make more rounds. Each round then has a fresher
	// generator, but waits for the slowest node once more.
	Queries int `yaml:"queries"`
	// Noise sets the noise by hand: sigma per count for `gnmax` (at least 1), sigma of the answer for
	// `confident-gnmax`, or the inverse scale lambda for `lnmax`. With too little noise the run ends early, when the
	// budget is used up, and keeps what it learned; if the budget cannot pay for the first round, the run fails. 0
	// takes the least noise with which the budget pays for all labels.
	Noise float64 `yaml:"noise"`
	// ClassShare is the part of epsilon that pays for the class shares. More makes the shares more exact and leaves
	// less for labels. It is paid even if the label has no classes, but not with a warm start, which already tells
	// the shares.
	ClassShare float64 `yaml:"class_share"`
	// Threshold is the share of `teachers` that must agree, for `confident-gnmax`. A lower threshold answers more
	// queries and saves less.
	Threshold float64 `yaml:"threshold"`
	// ThresholdNoise is the noise of that test as a multiple of the answer's noise, for `confident-gnmax`. More makes
	// the test cheaper and more often wrong.
	ThresholdNoise float64 `yaml:"threshold_noise"`
	// Quorum is the share of `teachers` that a round needs. With a lower quorum the run goes on without a
	// lost node, with fewer votes at the same cost.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the other nodes, counted from when a quorum was asked.
	Deadline float64 `yaml:"deadline"`

	Teacher Teacher `yaml:"teacher"`
	Student Student `yaml:"student"`
}

// Teacher says how teachers learn. Steps of teachers take time, but cost no budget.
type Teacher struct {
	// Model is the network of a teacher. `logistic`: one weight vector per class. `hidden`: one hidden layer per
	// class; it needs larger partitions.
	Model string `yaml:"model"`
	// Hidden is the width of the hidden layer.
	Hidden int `yaml:"hidden"`
	// Features is what a teacher sees. `standard`: columns in units of the round's generated records, with the squares
	// of numbers, so that a teacher also detects a column that is too wide or too narrow. `plain`: the encoded columns.
	Features string `yaml:"features"`
	// Steps is the number of optimizer steps in each round.
	Steps int `yaml:"steps"`
	// Batch is the largest number of real records, and of generated records, of a class in a step. A teacher with
	// fewer real records takes the time of a whole batch.
	Batch int `yaml:"batch"`
	// Training is the number of generated records that teachers train on in each round.
	Training int `yaml:"training"`
	// Rate is the step size.
	Rate float64 `yaml:"rate"`
	// Decay is the weight decay. A teacher with fewer records needs more of it.
	Decay float64 `yaml:"decay"`
}

// Student says how the student learns. Steps of the student take time, but cost no budget.
type Student struct {
	// Noise is the number of random inputs of the generator.
	Noise int `yaml:"noise"`
	// Hidden is the width of the generator's layers.
	Hidden int `yaml:"hidden"`
	// Layers is the number of the generator's hidden layers.
	Layers int `yaml:"layers"`
	// GeneratorSteps is the number of steps in each turn of a round. A round has at most 6 turns, and one turn if the
	// generator can follow the change at once. More steps follow more closely.
	GeneratorSteps int `yaml:"generator_steps"`
	// GeneratorRate is the step size of the generator's optimizer, Adam.
	GeneratorRate float64 `yaml:"generator_rate"`
	// Trust is how many units of the votes' log-odds count as one unit of the log-ratio of real to generated records.
	// The higher it is, the less a vote moves the generator.
	Trust float64 `yaml:"trust"`
	// Step is how far a round may be expected to move a column, in units of its spread. Less is steadier and slower.
	// 0 takes 1, or 0.2 after a warm start, which leaves less to move.
	Step float64 `yaml:"step"`
	// Memory is how fast old labels lose weight: of K rounds the k-th has weight (k/K)^memory. With 0 all labels
	// count the same.
	Memory float64 `yaml:"memory"`
	// Average is the decay of the generator's moving average per step.
	Average float64 `yaml:"average"`
	// Spread is the part of the queries that is spread over the public ranges.
	Spread float64 `yaml:"spread"`
	// Keep is the number of generators that stay in `state` for stages after training, each with the discriminator's
	// change in its round. They are those of the last rounds.
	Keep int `yaml:"keep"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options {
	return Options{
		Mechanism: GNMax, Votes: Relative, Release: "histogram",
		Queries: 64, ClassShare: 0.02, Threshold: 0.6, ThresholdNoise: 3, Quorum: 0.9, Deadline: 30,
		Teacher: Teacher{Model: "logistic", Hidden: 16, Features: "standard", Steps: 10, Batch: 32, Training: 64,
			Rate: 0.1, Decay: 0.1},
		Student: Student{
			Noise: 16, Hidden: 64, Layers: 2, GeneratorSteps: 100, GeneratorRate: 1e-3,
			Trust: 1, Memory: 3, Average: 0.99, Spread: 0.5, Keep: 10,
		},
	}
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("pategan")
	c.OneOf("mechanism", string(o.Mechanism), string(GNMax), string(LNMax), string(ConfidentGNMax))
	c.OneOf("votes", string(o.Votes), string(Calibrated), string(Relative), string(Plain))
	c.OneOf("release", o.Release, "histogram", "winner")
	c.Between("labels", float64(o.Labels), 0, 1e7)
	c.Between("queries", float64(o.Queries), 2, 65536)
	c.Noise(o.Noise)
	c.Check(o.ClassShare > 0 && o.ClassShare < 1, "class_share: %v is not a part of epsilon, between 0 and 1",
		o.ClassShare)
	c.Check(o.Threshold > 0 && o.Threshold <= 1, "threshold: %v is not a share of the teachers, above 0 and at most 1",
		o.Threshold)
	c.Positive("threshold_noise", o.ThresholdNoise)
	c.Rounds(o.Quorum, o.Deadline)
	c.OneOf("teacher.model", o.Teacher.Model, "logistic", "hidden")
	c.Between("teacher.hidden", float64(o.Teacher.Hidden), 1, 4096)
	c.OneOf("teacher.features", o.Teacher.Features, "standard", "plain")
	c.Between("teacher.steps", float64(o.Teacher.Steps), 1, 10000)
	c.Between("teacher.batch", float64(o.Teacher.Batch), 1, 1<<12)
	c.Between("teacher.training", float64(o.Teacher.Training), 1, 65536)
	c.Positive("teacher.rate", o.Teacher.Rate)
	c.Check(o.Teacher.Decay >= 0 && o.Teacher.Decay*o.Teacher.Rate < 1,
		"teacher.decay: %v is not at least 0 and below 1/rate", o.Teacher.Decay)
	c.Between("student.noise", float64(o.Student.Noise), 1, 4096)
	c.Between("student.hidden", float64(o.Student.Hidden), 1, 4096)
	c.Between("student.layers", float64(o.Student.Layers), 1, 16)
	c.Between("student.generator_steps", float64(o.Student.GeneratorSteps), 1, 1e6)
	c.Positive("student.generator_rate", o.Student.GeneratorRate)
	c.Positive("student.trust", o.Student.Trust)
	c.Check(o.Student.Step >= 0 && !math.IsInf(o.Student.Step, 0), "student.step: %v is not 0 (chosen) or above",
		o.Student.Step)
	c.Between("student.memory", o.Student.Memory, 0, 100)
	c.Check(o.Student.Average >= 0 && o.Student.Average < 1, "student.average: %v is not at least 0 and below 1",
		o.Student.Average)
	c.Between("student.spread", o.Student.Spread, 0, 1)
	c.Between("student.keep", float64(o.Student.Keep), 0, 1000)
	return c.Err()
}

// LabelsFor returns the number of labels of a run that sets none. The noise of a label grows with the root of
// their number, so the number that the teachers can support grows with the square of epsilon times the number
// of teachers. The upper bound is the number of labels that a small student can use.
func LabelsFor(epsilon float64, teachers int) int {
	carried := math.Pow(epsilon*float64(teachers), 2) / 1000
	return int(math.Round(math.Min(math.Max(carried, 256), 2048)))
}
