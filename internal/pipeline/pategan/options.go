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

// Options are the `pategan:` part of a run. The zero value of a field is not
// its default; start from [DefaultOptions].
type Options struct {
	// Mechanism: gnmax (default; the cheapest for many labels), lnmax (the
	// paper's; pure DP), confident-gnmax (charges little for a query that
	// teachers disagree on, but answers fewer).
	Mechanism Mechanism `yaml:"mechanism"`
	// Votes: relative (default; each teacher calls the queries above its own
	// median real), calibrated (real with the probability that the score gives;
	// says how large a difference is, in a quieter voice), plain (the paper's;
	// teachers soon call everything fake).
	Votes Vote `yaml:"votes"`
	// Release: histogram (default: the noisy counts, at the same
	// data-independent cost) or winner (the paper's: one bit per query).
	Release string `yaml:"release"`
	// Labels is the number of queries of the whole run. More labels mean more
	// noise on each. Default: 0, chosen from epsilon and the teachers.
	Labels int `yaml:"labels"`
	// Queries is the number of queries in each round. Default: 64. Fewer make
	// more rounds, each with a fresher generator.
	Queries int `yaml:"queries"`
	// Noise sets sigma (gnmax) or lambda (lnmax) by hand. Default: 0, the
	// least noise the budget allows for the labels.
	Noise float64 `yaml:"noise"`
	// ClassShare is the part of epsilon paid for the class shares. Default: 0.02.
	ClassShare float64 `yaml:"class_share"`
	// Threshold and ThresholdNoise belong to confident-gnmax: the share of
	// teachers that must agree (default 0.6), and the noise of that test as a
	// multiple of the answer's (default 3).
	Threshold      float64 `yaml:"threshold"`
	ThresholdNoise float64 `yaml:"threshold_noise"`
	// Quorum is the share of the teachers without which a round does not
	// count. Default: 0.9.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the rest once a quorum is
	// connected. Default: 30.
	Deadline float64 `yaml:"deadline"`

	Teacher Teacher `yaml:"teacher"`
	Student Student `yaml:"student"`
}

// Teacher says how teachers learn.
type Teacher struct {
	// Model: logistic (default) or hidden (one hidden layer; needs larger
	// partitions).
	Model string `yaml:"model"`
	// Hidden is the width of the hidden layer. Default: 16.
	Hidden int `yaml:"hidden"`
	// Features: standard (default; in units of the round's generated records,
	// with the squares of numbers, so that teachers also tell a column that is
	// too wide or too narrow), plain (the encoded columns).
	Features string `yaml:"features"`
	// Steps is the number of optimizer steps in each round. Default: 10.
	Steps int `yaml:"steps"`
	// Batch bounds the real and the generated records of a class in a step.
	// Default: 32.
	Batch int `yaml:"batch"`
	// Training is the number of generated records that teachers train on in
	// each round. Default: 64.
	Training int `yaml:"training"`
	// Rate is the step size, Decay pulls the weights to zero: the fewer records
	// a teacher has, the more it needs. Defaults: 0.1 and 0.1.
	Rate  float64 `yaml:"rate"`
	Decay float64 `yaml:"decay"`
}

// Student says how the student learns. Its steps are free of cost.
type Student struct {
	// Noise is the number of random inputs of the generator. Default: 16.
	Noise int `yaml:"noise"`
	// Hidden and Layers shape the generator. Defaults: 64, 2.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
	// GeneratorSteps are taken in each turn of a round, of at most 6; a change
	// of the discriminator that the generator can follow at once takes one.
	// GeneratorRate is Adam's step size. Defaults: 100 and 0.001.
	GeneratorSteps int     `yaml:"generator_steps"`
	GeneratorRate  float64 `yaml:"generator_rate"`
	// Trust is how many votes' log-odds count as one unit of the log-ratio of
	// real to generated records: the higher, the less a vote moves. Default: 1.
	Trust float64 `yaml:"trust"`
	// Step is how far a round may be expected to move a column, in units of its
	// spread. Less is calmer and slower. Default: 0, chosen: 1, or 0.2 after a warm start,
	// which leaves less to move.
	Step float64 `yaml:"step"`
	// Memory says how soon labels are forgotten: of K rounds, the k-th has
	// weight (k/K)^memory. Default: 3. 0 keeps all labels alike.
	Memory float64 `yaml:"memory"`
	// Average is the decay of the generator's moving average per step.
	// Default: 0.99.
	Average float64 `yaml:"average"`
	// Spread is the part of the queries that is widened. Default: 0.5.
	Spread float64 `yaml:"spread"`
	// Keep is how many generators and changes of the discriminator are kept, those of the
	// last rounds, for what comes after the run. Default: 10.
	Keep int `yaml:"keep"`
}

// DefaultOptions returns the defaults named at each field.
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

// LabelsFor returns the number of labels of a run that sets none. The noise
// of a label grows with the root of their number, so the number that the
// teachers can carry grows with the square of epsilon times their number; more
// labels than a small student can use are not bought.
func LabelsFor(epsilon float64, teachers int) int {
	carried := math.Pow(epsilon*float64(teachers), 2) / 1000
	return int(math.Round(math.Min(math.Max(carried, 256), 2048)))
}
