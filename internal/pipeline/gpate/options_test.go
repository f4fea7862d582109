package gpate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The defaults work for tables and images, with all kinds of answers.
func TestDefaultOptionsAreValid(t *testing.T) {
	testkit.Must(t, DefaultOptions().Validate())
	for name, e := range map[string]*encode.Encoder{"a table": tableEncoder(t), "MNIST": imageEncoder(t, 28, 28, 1),
		"color": imageEncoder(t, 32, 32, 3)} {
		for _, answers := range []Answers{Sum, Histogram, Winner} {
			o := DefaultOptions()
			o.Answers = answers
			o = o.ChosenFor(e)
			for _, err := range []error{o.Validate(), o.CheckFor(e)} {
				if err != nil {
					t.Errorf("%s, %s: %v", name, answers, err)
				}
			}
			if again := o.ChosenFor(e); again != o {
				t.Errorf("%s, %s: %+v is chosen again as %+v", name, answers, o, again)
			}
			for field, v := range map[string]int{"rounds": o.Rounds, "records": o.Records, "directions": o.Directions,
				"steps": o.Teacher.Steps, "training": o.Teacher.Training, "hidden": o.Student.Hidden} {
				if v < 1 {
					t.Errorf("%s, %s: %s is %d", name, answers, field, v)
				}
			}
		}
	}
}

// What is set is not chosen.
func TestChosenLeavesWhatIsSet(t *testing.T) {
	for _, answers := range []Answers{Sum, Winner} {
		o := smallOptions()
		o.Answers, o.Directions, o.Teacher.Cosines = answers, 3, 4
		if got := o.ChosenFor(tableEncoder(t)); got != o {
			t.Errorf("%+v became %+v", o, got)
		}
		if got := o.ChosenFor(imageEncoder(t, 8, 8, 1)); got != o {
			t.Errorf("of images %+v became %+v", o, got)
		}
	}
}

// Gradients have as many numbers as teachers see, and that many are asked for in sums.
func TestSeen(t *testing.T) {
	for _, c := range []struct {
		e        *encode.Encoder
		features string
		cosines  int
		want     int
	}{
		{tableEncoder(t), "standard", 8, 7}, {tableEncoder(t), "plain", 8, 7},
		{imageEncoder(t, 8, 6, 2), "plain", 3, 96}, {imageEncoder(t, 8, 6, 2), "cosines", 3, 18},
		{imageEncoder(t, 8, 6, 2), "cosines", 6, 72},
	} {
		o := DefaultOptions()
		o.Teacher.Features, o.Teacher.Cosines = c.features, c.cosines
		o = o.ChosenFor(c.e)
		if o.Seen(c.e) != c.want || o.Directions != c.want || o.projects(c.want) {
			t.Errorf("%s: %d numbers in %d directions, want %d", c.features, o.Seen(c.e), o.Directions, c.want)
		}
	}
}

// Each rule is broken alone, and its message names the field.
func TestValidateNamesTheField(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for field, spoils := range map[string][]func(*Options){
		"answers":    {func(o *Options) { o.Answers = "" }, func(o *Options) { o.Answers = "all" }},
		"rounds":     {func(o *Options) { o.Rounds = -1 }, func(o *Options) { o.Rounds = 1e6 + 1 }},
		"records":    {func(o *Options) { o.Records = -1 }, func(o *Options) { o.Records = 65537 }},
		"directions": {func(o *Options) { o.Directions = -1 }, func(o *Options) { o.Directions = 1<<20 + 1 }},
		"bins":       {func(o *Options) { o.Bins = 1 }, func(o *Options) { o.Bins = 257 }},
		"clip": {
			func(o *Options) { o.Clip = 0 }, func(o *Options) { o.Clip = -1 }, func(o *Options) { o.Clip = nan },
			func(o *Options) { o.Clip = inf }, func(o *Options) { o.Clip = 1e-31 },
		},
		"norm": {func(o *Options) {
			o.Norm = -1
		}, func(o *Options) { o.Norm = nan }, func(o *Options) { o.Norm = inf }},
		"mechanism": {func(o *Options) { o.Mechanism = "lnmax" }, func(o *Options) { o.Mechanism = "" }},
		"noise": {func(o *Options) {
			o.Noise = -1
		}, func(o *Options) { o.Noise = nan }, func(o *Options) { o.Noise = inf }},
		"threshold": {func(o *Options) {
			o.Threshold = 0
		}, func(o *Options) { o.Threshold = 1.5 }, func(o *Options) { o.Threshold = nan }},
		"threshold_noise": {func(o *Options) { o.ThresholdNoise = 0 }, func(o *Options) { o.ThresholdNoise = inf }},
		"class_epsilon":   {func(o *Options) { o.ClassEpsilon = 0 }, func(o *Options) { o.ClassEpsilon = nan }},
		"quorum":          {func(o *Options) { o.Quorum = 0 }, func(o *Options) { o.Quorum = 1.01 }},
		"deadline":        {func(o *Options) { o.Deadline = 0 }, func(o *Options) { o.Deadline = nan }},

		"teacher.model":  {func(o *Options) { o.Teacher.Model = "tree" }},
		"teacher.hidden": {func(o *Options) { o.Teacher.Hidden = -1 }, func(o *Options) { o.Teacher.Hidden = 4097 }},
		"teacher.networks": {func(o *Options) {
			o.Teacher.Networks = ""
		}, func(o *Options) { o.Teacher.Networks = "two" }},
		"teacher.features": {func(o *Options) { o.Teacher.Features = "raw" }},
		"teacher.cosines": {func(o *Options) {
			o.Teacher.Cosines = -1
		}, func(o *Options) { o.Teacher.Cosines = 1025 }},
		"teacher.memory": {func(o *Options) { o.Teacher.Memory = "none" }},
		"teacher.steps":  {func(o *Options) { o.Teacher.Steps = -1 }, func(o *Options) { o.Teacher.Steps = 10001 }},
		"teacher.batch":  {func(o *Options) { o.Teacher.Batch = 0 }},
		"teacher.training": {func(o *Options) {
			o.Teacher.Training = -1
		}, func(o *Options) { o.Teacher.Training = 65537 }},
		"teacher.rate": {func(o *Options) { o.Teacher.Rate = -1 }, func(o *Options) { o.Teacher.Rate = 101 }},
		"teacher.decay": {
			func(o *Options) { o.Teacher.Decay = -2 }, func(o *Options) { o.Teacher.Decay = nan },
			func(o *Options) { o.Teacher.Rate, o.Teacher.Decay = 0.5, 2 },
		},
		"student.generator": {func(o *Options) { o.Student.Generator = "transformer" }},
		"student.warp": {func(o *Options) {
			o.Student.Warp = -2
		}, func(o *Options) { o.Student.Warp = nan }, func(o *Options) { o.Student.Warp = 11 }},
		"student.noise":  {func(o *Options) { o.Student.Noise = 0 }},
		"student.hidden": {func(o *Options) { o.Student.Hidden = -1 }},
		"student.layers": {func(o *Options) { o.Student.Layers = 0 }, func(o *Options) { o.Student.Layers = 17 }},
		"student.follow": {func(o *Options) { o.Student.Follow = "climb" }},
		"student.step":   {func(o *Options) { o.Student.Step = -1 }, func(o *Options) { o.Student.Step = nan }},
		"student.step_end": {func(o *Options) {
			o.Student.StepEnd = -1
		}, func(o *Options) { o.Student.StepEnd = inf }},
		"student.generator_steps": {func(o *Options) { o.Student.GeneratorSteps = -1 }},
		"student.generator_rate": {func(o *Options) {
			o.Student.GeneratorRate = 0
		}, func(o *Options) { o.Student.GeneratorRate = nan }},
		"student.average": {func(o *Options) {
			o.Student.Average = 1
		}, func(o *Options) { o.Student.Average = -2 }, func(o *Options) { o.Student.Average = nan }},
	} {
		for i, spoil := range spoils {
			o := DefaultOptions()
			spoil(&o)
			err := o.Validate()
			if err == nil || !strings.HasPrefix(err.Error(), "gpate."+field+": ") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %d: got %v", field, i, err)
			}
			if _, err := New(o, tableEncoder(t), 2, 1); err == nil {
				t.Errorf("%s, %d: New took it", field, i)
			}
		}
	}
}

// What cannot work for the records is found before anything is asked.
func TestCheckForNamesTheField(t *testing.T) {
	table, images, odd := tableEncoder(t), imageEncoder(t, 8, 8, 1), imageEncoder(t, 7, 9, 1)
	large := imageEncoder(t, 120, 120, 3)
	for name, c := range map[string]struct {
		e      *encode.Encoder
		change func(*Options)
		want   string // nothing: it works
	}{
		"a table":        {table, func(*Options) {}, ""},
		"images":         {images, func(*Options) {}, ""},
		"all directions": {table, func(o *Options) { o.Answers, o.Directions = Winner, 7 }, ""},
		"more directions than columns": {table, func(o *Options) {
			o.Answers, o.Directions = Winner, 8
		}, "gpate.directions: 8 are more than the 7 features"},
		"of sums": {table, func(o *Options) { o.Directions = 8 }, "gpate.directions: 8 are more than the 7 features"},
		"more directions than cosines": {images, func(o *Options) {
			o.Directions = 10
		}, "gpate.directions: 10 are more than the 9 features"},
		"all cosines": {images, func(o *Options) { o.Teacher.Cosines = 8 }, ""},
		"more cosines than pixels": {images, func(o *Options) {
			o.Teacher.Cosines = 9
		}, "gpate.teacher.cosines: 9 frequencies are more than the pixels of an image's side, 8"},
		"of the shorter side": {odd, func(o *Options) { o.Teacher.Cosines = 8 }, "image's side, 7"},
		"too many votes": {table, func(o *Options) { o.Answers, o.Directions, o.Records, o.Bins = Winner, 7, 9363, 2 },
			"gpate.records: 9363 with 7 directions are 65541 votes a round, more than 65536"},
		"too many counts": {table, func(o *Options) {
			o.Answers, o.Directions, o.Records, o.Bins = Winner, 7, 1873, 10
		},
			"gpate.records: 1873 with 7 directions of 10 bins are 131110 counts a round, more than 131072"},
		"as many counts as can be": {table, func(o *Options) {
			o.Answers, o.Directions, o.Records, o.Bins = Winner, 4, 128, 256
		}, ""},
		"too many numbers": {table, func(o *Options) {
			o.Records = 18725
		}, "gpate.records: 18725 of 7 numbers are 131075 in a round, more than 131072"},
		"too large a round": {large, func(o *Options) {
			o.Teacher.Training = 400
		}, "gpate.teacher.training: 400 records to train on and 12 to ask about are 17798400 numbers"},
		"convolutions of a table": {table, func(o *Options) {
			o.Teacher.Model = "convolution"
			o.Teacher.Features = "plain"
		}, "gpate.teacher.model: convolution is for images only"},
		"generated by convolution": {table, func(o *Options) {
			o.Student.Generator = "convolution"
		}, "gpate.student.generator: convolution is for images only"},
		"decay beside a chosen rate": {table, func(o *Options) {
			o.Teacher.Rate, o.Teacher.Decay = 0, 11
		}, "gpate.teacher.decay: 11 is not"},
		"networks of energy": {images, func(o *Options) {
			o.Teacher.Model, o.Teacher.Networks = "energy", "one"
		}, "gpate.teacher.networks: energy teachers have no networks"},
		"cosines of a table": {table, func(o *Options) {
			o.Teacher.Features = "cosines"
		}, "gpate.teacher.features: cosines is for images only"},
		"standard images": {images, func(o *Options) {
			o.Teacher.Features = "standard"
		}, "gpate.teacher.features: standard is for tables only"},
		"tilted images": {images, func(o *Options) {
			o.Student.Follow = Tilt
		}, "gpate.student.follow: tilt is for tables only"},
		"one logistic network": {table, func(o *Options) {
			o.Teacher.Networks = "one"
		}, "gpate.teacher.networks: one logistic network"},
		"one hidden network": {table, func(o *Options) { o.Teacher.Networks, o.Teacher.Model = "one", "hidden" }, ""},
		"convolved cosines": {images, func(o *Options) {
			o.Teacher.Model = "convolution"
		}, "gpate.teacher.model: convolution needs to see pixels"},
		"convolved pixels": {images, func(o *Options) {
			o.Teacher.Model, o.Teacher.Features = "convolution", "plain"
		}, ""},
		"a convolutional student": {images, func(o *Options) { o.Student.Generator = "convolution" }, ""},
		"images that do not halve": {odd, func(o *Options) {
			o.Student.Generator = "convolution"
		}, "gpate.student: a generator of kind convolution cannot make images of 7 x 9"},
		"too large a projection": {large, func(o *Options) {
			o.Teacher.Features, o.Directions, o.Records, o.Teacher.Training = "plain", 2000, 2, 10
		}, "gpate.directions: projection of 43200 features to 2000 directions is more than 67108864 numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			o := smallOptions()
			if c.e.Image() != nil {
				o = imageOptions()
			}
			c.change(&o)
			testkit.Must(t, o.Validate())
			err := o.ChosenFor(c.e).CheckFor(c.e)
			if (err != nil) != (c.want != "") ||
				err != nil && (!strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "\n")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if c.want != "" {
				if _, err := New(o, c.e, 2, 1); err == nil {
					t.Error("New took it")
				}
			}
		})
	}
	// All that is wrong is said, in the same order each time.
	o := smallOptions()
	o.Teacher.Model, o.Teacher.Features, o.Student.Generator = "convolution", "cosines", "convolution"
	said := o.ChosenFor(table).CheckFor(table).Error()
	if n := strings.Count(said, "for images only"); n != 3 {
		t.Errorf("%q", said)
	}
	if again := slices.Repeat([]string{said}, 10); slices.ContainsFunc(again, func(s string) bool {
		return s != o.ChosenFor(table).CheckFor(table).Error()
	}) {
		t.Error("the order of what is wrong changes")
	}
}
