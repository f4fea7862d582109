package gpate

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline"
	"github.com/conclave-dp/conclave/projection"
)

// Answers names how gradients are released.
type Answers string

// The kinds of answers.
const (
	// Sum releases the sum of the teachers' clipped gradients with Gaussian noise.
	Sum Answers = "sum"
	// Histogram releases the noisy counts of all bins of each vote; their mean is used.
	Histogram Answers = "histogram"
	// Winner releases the winning bin of each vote, as the paper does.
	Winner Answers = "winner"
)

// Follow names how the generator follows the released steps.
type Follow string

// The ways to follow.
const (
	// Tilt fits a discriminator to the steps and moves the generator to its own
	// distribution tilted by it; of tables only.
	Tilt Follow = "tilt"
	// Move fits the generator to its records moved by the steps, as the paper does.
	Move Follow = "move"
)

// Options are the `gpate:` part of a run. The zero value of a field is not its
// default; start from [DefaultOptions].
type Options struct {
	// Answers: sum (default; one Gaussian release a round, whatever the number of
	// records and directions), histogram (votes; the mean of the noisy counts of the
	// bins) or winner (votes; the winning bin, the paper's).
	Answers Answers `yaml:"answers"`
	// Rounds and Records are the number of rounds, and of generated records whose
	// gradients are asked for in each. More rounds mean more noise in each, more
	// records of votes do too. Defaults: 0, chosen: 20 rounds of 64 records of tables,
	// 40 rounds of 200 images (fewer where an aggregator would not take so many numbers);
	// of votes 10 rounds of 16 records, 20 of images, as every vote has to be paid for.
	Rounds  int `yaml:"rounds"`
	Records int `yaml:"records"`
	// Directions is the paper's k, the number of random directions on which gradients
	// are projected. Default: 0, chosen: 5 of tables and 10 of images for votes (the
	// paper's), all features for sums, which need no projection.
	Directions int `yaml:"directions"`
	// Bins is the paper's B, Clip its c: votes are for equal parts of (-c, c). Defaults:
	// 10 and 0.0001.
	Bins int     `yaml:"bins"`
	Clip float64 `yaml:"clip"`
	// Norm bounds the length of a teacher's vector of all gradients of a round, of
	// sums. Default: 0, all vectors are made equally long.
	Norm float64 `yaml:"norm"`
	// Mechanism of votes: confident-gnmax (default; the paper's) or gnmax.
	Mechanism string `yaml:"mechanism"`
	// Noise is the noise of each count of votes, the paper's sigma2, or of sums the
	// noise multiplier. Default: 0, the least that the budget allows.
	Noise float64 `yaml:"noise"`
	// Threshold and ThresholdNoise belong to confident-gnmax: the share of teachers
	// that must agree (default 0.5), and the noise of that test, the paper's sigma1, as
	// a multiple of the answer's (default 3).
	Threshold      float64 `yaml:"threshold"`
	ThresholdNoise float64 `yaml:"threshold_noise"`
	// ClassEpsilon is paid for the class shares, a part of the run's epsilon. Default:
	// 0.01, the paper's.
	ClassEpsilon float64 `yaml:"class_epsilon"`
	// Quorum is the share of the teachers without which a round does not count.
	// Default: 0.9.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the rest once a quorum is
	// connected. Default: 300; teachers of images take their time.
	Deadline float64 `yaml:"deadline"`

	Teacher Teacher `yaml:"teacher"`
	Student Student `yaml:"student"`
}

// Teacher says how teachers learn.
type Teacher struct {
	// Model: logistic, hidden (one hidden layer), convolution (two, of images) or energy
	// (no network: the energy distance between a teacher's records and generated ones,
	// which needs no training and loses nothing by small partitions). Default: chosen,
	// logistic for tables and energy for images.
	Model string `yaml:"model"`
	// Hidden is the width of the hidden layer, or the channels of the first
	// convolution. Default: 0, chosen: 16 for tables and 64 for images.
	Hidden int `yaml:"hidden"`
	// Networks: each (a network for every class) or one (for all classes, told the
	// class). Default: each.
	Networks string `yaml:"networks"`
	// Features: standard (in units of the round's generated records, with the squares
	// of numbers), plain (the encoded columns) or cosines (the coefficients of an image
	// at its lowest frequencies). Gradients are by what teachers see. Default: chosen,
	// standard for tables and cosines for images.
	Features string `yaml:"features"`
	// Cosines is how many frequencies in each direction are seen of an image, of
	// cosines. Default: 10. More are sharper and leave more noise on each.
	Cosines int `yaml:"cosines"`
	// Memory: run (teachers go on learning over the run) or round (they begin anew in
	// every round, so that a node keeps nothing of them). Default: chosen, run for tables
	// and round for images.
	Memory string `yaml:"memory"`
	// Steps is the number of optimizer steps in each round. Default: 0, chosen: 10 for
	// tables and 20 for images.
	Steps int `yaml:"steps"`
	// Batch bounds the real and the generated records of a class in a step.
	// Default: 32.
	Batch int `yaml:"batch"`
	// Training is the number of generated records that teachers train on in each
	// round. Default: 0, chosen: 64 for tables, and 200 for images.
	Training int `yaml:"training"`
	// Rate is the step size, Decay pulls the weights to zero. Defaults: 0 and -1, chosen: 0.1
	// and 0.1 for tables, 0.002 and 0 for images.
	Rate  float64 `yaml:"rate"`
	Decay float64 `yaml:"decay"`
}

// Student says how the student learns. Its steps are free of cost.
type Student struct {
	// Generator: dense (default) or convolution (of images).
	Generator string `yaml:"generator"`
	// Warp is the strength of the small random turns, shears, scales and shifts that end
	// a generator of images, which it then need not learn. Default: -1, chosen: 0 for
	// tables, 0.8 for images.
	Warp float64 `yaml:"warp"`
	// Noise is the number of random inputs of the generator. Default: 16.
	Noise int `yaml:"noise"`
	// Hidden and Layers shape the generator. Defaults: chosen, 64 for tables and 256 for
	// images; 2.
	Hidden int `yaml:"hidden"`
	Layers int `yaml:"layers"`
	// Follow: tilt or move (the paper's). Default: chosen, tilt for tables and move
	// for images.
	Follow Follow `yaml:"follow"`
	// Step is how far a round moves: to tilt, a column in units of its spread where all
	// teachers agree; to move, a record on average, as the length of the change of its
	// features. StepEnd is the same for the last round; rounds between are between.
	// Defaults: 0, chosen: 0.5 and 0.5 to tilt, 4 and 0.5 to move.
	Step    float64 `yaml:"step"`
	StepEnd float64 `yaml:"step_end"`
	// GeneratorSteps are taken in each round, GeneratorRate is Adam's step size.
	// Defaults: 0, chosen: 100 for tables and 20 for images; 0.001.
	GeneratorSteps int     `yaml:"generator_steps"`
	GeneratorRate  float64 `yaml:"generator_rate"`
	// Average is the decay of the generator's moving average per step. Default: -1,
	// chosen: 0.998 for tables, some rounds, and 0.99 for images.
	Average float64 `yaml:"average"`
}

// DefaultOptions returns the defaults named at each field.
func DefaultOptions() Options {
	return Options{
		Answers: Sum, Bins: 10, Clip: 1e-4, Mechanism: "confident-gnmax", Threshold: 0.5, ThresholdNoise: 3,
		ClassEpsilon: 0.01, Quorum: 0.9, Deadline: 300,
		Teacher: Teacher{Networks: "each", Cosines: 10, Batch: 32, Decay: -1},
		Student: Student{Generator: "dense", Warp: -1, Noise: 16, Layers: 2, GeneratorRate: 1e-3, Average: -1},
	}
}

// Chosen returns the options with everything that is left to be chosen filled in for
// records of so many features, of images of some channels or, with 0 channels, of tables.
func (o Options) Chosen(features, channels int) Options {
	images := channels > 0
	pick := func(v *int, table, image int) {
		if *v == 0 {
			if *v = table; images {
				*v = image
			}
		}
	}
	name := func(v *string, table, image string) {
		if *v == "" {
			if *v = table; images {
				*v = image
			}
		}
	}
	name(&o.Teacher.Model, "logistic", "energy")
	pick(&o.Teacher.Hidden, 16, 64)
	name(&o.Teacher.Features, "standard", "cosines")
	name(&o.Teacher.Memory, "run", "round")
	if o.Teacher.Features == "cosines" && images {
		features = min(features, o.Teacher.Cosines*o.Teacher.Cosines*channels)
	}
	pick(&o.Teacher.Steps, 10, 20)
	pick(&o.Teacher.Training, 64, 200)
	if o.Teacher.Rate == 0 {
		if o.Teacher.Rate = 0.1; images {
			o.Teacher.Rate = 2e-3
		}
	}
	if o.Teacher.Decay < 0 {
		if o.Teacher.Decay = 0.1; images {
			o.Teacher.Decay = 0
		}
	}
	if o.Student.Average < 0 {
		if o.Student.Average = 0.998; images {
			o.Student.Average = 0.99
		}
	}
	if o.Student.Warp < 0 {
		if o.Student.Warp = 0; images {
			o.Student.Warp = 0.8
		}
	}
	pick(&o.Student.Hidden, 64, 256)
	name((*string)(&o.Student.Follow), string(Tilt), string(Move))
	pick(&o.Student.GeneratorSteps, 100, 20)
	if o.Student.Step == 0 {
		if o.Student.Step = 0.5; o.Student.Follow == Move {
			o.Student.Step = 4
		}
	}
	if o.Student.StepEnd == 0 {
		o.Student.StepEnd = min(0.5, o.Student.Step)
	}
	if o.Answers == Sum {
		pick(&o.Rounds, 20, 40)
		pick(&o.Directions, features, features)
		pick(&o.Records, 64, min(200, maxEntries/max(1, o.Directions)))
		return o
	}
	pick(&o.Rounds, 10, 20)
	pick(&o.Records, 16, 16)
	pick(&o.Directions, min(5, features), min(10, features))
	return o
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("gpate."+format, args...))
		}
	}
	oneOf := func(field, value string, of ...string) {
		for _, v := range of {
			if v == value {
				return
			}
		}
		check(false, "%s: %q is not one of %q", field, value, of)
	}
	between := func(field string, v, lo, hi float64) {
		check(v >= lo && v <= hi, "%s: %v is not between %v and %v", field, v, lo, hi)
	}
	positive := func(field string, v float64) {
		check(v > 0 && !math.IsInf(v, 0), "%s: %v is not above 0", field, v)
	}
	oneOf("answers", string(o.Answers), string(Sum), string(Histogram), string(Winner))
	between("rounds", float64(o.Rounds), 0, 1e6)
	between("records", float64(o.Records), 0, 65536)
	between("directions", float64(o.Directions), 0, 1<<20)
	between("bins", float64(o.Bins), 2, 256)
	check(o.Clip > 1e-30 && o.Clip <= 1e30, "clip: %v is not above 0", o.Clip)
	check(o.Norm >= 0 && !math.IsInf(o.Norm, 0), "norm: %v is not 0 (all alike) or above", o.Norm)
	oneOf("mechanism", o.Mechanism, "confident-gnmax", "gnmax")
	check(o.Noise >= 0 && !math.IsInf(o.Noise, 0), "noise: %v is not 0 (chosen) or above", o.Noise)
	check(o.Threshold > 0 && o.Threshold <= 1, "threshold: %v is not a share of the teachers, above 0 and at most 1", o.Threshold)
	positive("threshold_noise", o.ThresholdNoise)
	positive("class_epsilon", o.ClassEpsilon)
	check(o.Quorum > 0 && o.Quorum <= 1, "quorum: %v is not a share of the teachers, above 0 and at most 1", o.Quorum)
	positive("deadline", o.Deadline)
	oneOf("teacher.model", o.Teacher.Model, "", "logistic", "hidden", "convolution", "energy")
	between("teacher.hidden", float64(o.Teacher.Hidden), 0, 4096)
	oneOf("teacher.networks", o.Teacher.Networks, "each", "one")
	between("teacher.cosines", float64(o.Teacher.Cosines), 1, 1024)
	oneOf("teacher.memory", o.Teacher.Memory, "", "run", "round")
	oneOf("teacher.features", o.Teacher.Features, "", "standard", "plain", "cosines")
	between("teacher.steps", float64(o.Teacher.Steps), 0, 10000)
	between("teacher.batch", float64(o.Teacher.Batch), 1, 1<<20)
	between("teacher.training", float64(o.Teacher.Training), 0, 65536)
	between("teacher.rate", o.Teacher.Rate, 0, 100)
	check((o.Teacher.Decay >= 0 || o.Teacher.Decay == -1) && o.Teacher.Decay*max(0, o.Teacher.Rate) < 1, "teacher.decay: %v is not at least 0 and below 1/rate, or -1 to have it chosen", o.Teacher.Decay)
	oneOf("student.generator", o.Student.Generator, "dense", "convolution")
	check(o.Student.Warp == -1 || o.Student.Warp >= 0 && o.Student.Warp <= 10, "student.warp: %v is not between 0 and 10, or -1 to have it chosen", o.Student.Warp)
	between("student.noise", float64(o.Student.Noise), 1, 4096)
	between("student.hidden", float64(o.Student.Hidden), 0, 4096)
	between("student.layers", float64(o.Student.Layers), 1, 16)
	oneOf("student.follow", string(o.Student.Follow), "", string(Tilt), string(Move))
	between("student.step", o.Student.Step, 0, 1e6)
	between("student.step_end", o.Student.StepEnd, 0, 1e6)
	between("student.generator_steps", float64(o.Student.GeneratorSteps), 0, 1e6)
	positive("student.generator_rate", o.Student.GeneratorRate)
	check(o.Student.Average == -1 || o.Student.Average >= 0 && o.Student.Average < 1, "student.average: %v is not at least 0 and below 1, or -1 to have it chosen", o.Student.Average)
	return errors.Join(errs...)
}

// ChosenFor is Chosen for the records of an encoder.
func (o Options) ChosenFor(e *partition.Encoder) Options {
	channels := 0
	if image := e.Image(); image != nil {
		channels = image.Channels
	}
	return o.Chosen(e.Width(), channels)
}

// Seen is the length of a gradient: the number of features that teachers see, but for
// the squares of standard ones.
func (o Options) Seen(e *partition.Encoder) int {
	if image := e.Image(); image != nil && o.Teacher.Features == "cosines" {
		return o.Teacher.Cosines * o.Teacher.Cosines * image.Channels
	}
	return e.Width()
}

// CheckFor reports what cannot work for records of an encoder; o has been
// [Options.Chosen].
func (o Options) CheckFor(e *partition.Encoder) error {
	var errs []error
	image := e.Image()
	images := image != nil
	if k := o.Teacher.Cosines; o.Teacher.Features == "cosines" && images && k > min(image.Height, image.Width) {
		errs = append(errs, fmt.Errorf("gpate.teacher.cosines: %d frequencies are more than the pixels of an image's side, %d; use at most that many", k, min(image.Height, image.Width)))
	}
	if seen := o.Seen(e); o.Directions > seen {
		errs = append(errs, fmt.Errorf("gpate.directions: %d are more than the %d features that teachers see of a record; use at most that many", o.Directions, seen))
	}
	if o.Answers != Sum && o.Records*o.Directions > maxQueries {
		errs = append(errs, fmt.Errorf("gpate.records: %d with %d directions are %d votes a round, more than %d; use fewer", o.Records, o.Directions, o.Records*o.Directions, maxQueries))
	}
	if o.Answers == Sum && o.Records*o.Directions > maxEntries {
		errs = append(errs, fmt.Errorf("gpate.records: %d of %d numbers are %d in a round, more than %d; use fewer records, or fewer directions", o.Records, o.Directions, o.Records*o.Directions, maxEntries))
	}
	if votes := o.Records * o.Directions; o.Answers != Sum && votes <= maxQueries && votes*o.Bins > maxEntries {
		errs = append(errs, fmt.Errorf("gpate.records: %d with %d directions of %d bins are %d counts a round, more than %d; use fewer", o.Records, o.Directions, o.Bins, o.Records*o.Directions*o.Bins, maxEntries))
	}
	if n := (o.Records + o.Teacher.Training) * e.Width(); n > maxNumbers {
		errs = append(errs, fmt.Errorf("gpate.teacher.training: %d records to train on and %d to ask about are %d numbers, more than the %d of a round; use fewer", o.Teacher.Training, o.Records, n, maxNumbers))
	}
	for _, f := range []struct {
		field string
		of    bool
	}{
		{"teacher.model: convolution", o.Teacher.Model == "convolution"}, {"teacher.features: cosines", o.Teacher.Features == "cosines"},
		{"student.generator: convolution", o.Student.Generator == "convolution"},
	} {
		if f.of && !images {
			errs = append(errs, fmt.Errorf("gpate.%s is for images only; use another", f.field))
		}
	}
	if o.Teacher.Networks == "one" && o.Teacher.Model == "logistic" {
		errs = append(errs, errors.New("gpate.teacher.networks: one logistic network for all classes sees nothing of a record in its class; use each, or another model"))
	}
	if !images && o.Student.Warp > 0 {
		errs = append(errs, errors.New("gpate.student.warp: it is for images only; use 0"))
	}
	if images && o.Student.Follow == Tilt {
		errs = append(errs, errors.New("gpate.student.follow: tilt is for tables only; use move"))
	}
	if images && o.Teacher.Features == "standard" {
		errs = append(errs, errors.New("gpate.teacher.features: standard is for tables only; use cosines or plain"))
	}
	if o.Teacher.Model == "convolution" && o.Teacher.Features != "plain" {
		errs = append(errs, errors.New("gpate.teacher.model: convolution needs to see pixels; set teacher.features to plain"))
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // what follows takes the rest for granted
	}
	if seen := o.Seen(e); o.projects(seen) {
		if err := o.projected(seen).Check(); err != nil {
			errs = append(errs, fmt.Errorf("gpate.directions: %w", err))
		}
	}
	if err := o.generator(1).Check(e); err != nil {
		errs = append(errs, fmt.Errorf("gpate.student: %w", err))
	}
	return errors.Join(errs...)
}

// What an aggregator takes in one round: maxNumbers of float32 are 60 of 64 MiB.
const (
	maxQueries = 1 << 16
	maxEntries = 1 << 17
	maxNumbers = 15 << 20
)

// projects is whether gradients of so many numbers are projected.
func (o Options) projects(seen int) bool { return o.Answers != Sum || o.Directions != seen }

// projected are the directions of a round.
func (o Options) projected(seen int) projection.Spec {
	return projection.Spec{Features: seen, Directions: o.Directions, Clip: o.Clip, Bins: o.Bins}
}

// generator is that of a student.
func (o Options) generator(classes int) pipeline.GeneratorSpec {
	s := o.Student
	return pipeline.GeneratorSpec{Kind: s.Generator, Noise: s.Noise, Hidden: s.Hidden, Layers: s.Layers, Classes: classes, Warp: s.Warp}
}
