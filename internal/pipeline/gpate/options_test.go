package gpate

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The defaults work for tables and images, with all kinds of answers.
func TestDefaultOptionsAreValid(t *testing.T) {
	testkit.Must(t, DefaultOptions().Validate())
	for name, e := range map[string]*encode.Encoder{"a table": studenttest.Table(t), "MNIST": studenttest.Images(t, 28,
		28, 1),
		"color": studenttest.Images(t, 32, 32, 3)} {
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

// Values that are set are not chosen.
func TestChosenLeavesWhatIsSet(t *testing.T) {
	for _, answers := range []Answers{Sum, Winner} {
		o := smallOptions()
		o.Answers, o.Directions, o.Teacher.Cosines = answers, 3, 4
		if got := o.ChosenFor(studenttest.Table(t)); got != o {
			t.Errorf("%+v became %+v", o, got)
		}
		if got := o.ChosenFor(studenttest.Images(t, 8, 8, 1)); got != o {
			t.Errorf("of images %+v became %+v", o, got)
		}
	}
}

// Gradients have as many numbers as teachers see, and sums ask for that many.
func TestSeen(t *testing.T) {
	for _, c := range []struct {
		e        *encode.Encoder
		features string
		cosines  int
		want     int
	}{
		{studenttest.Table(t), "standard", 8, 7}, {studenttest.Table(t), "plain", 8, 7},
		{studenttest.Images(t, 8, 6, 2), "plain", 3, 96}, {studenttest.Images(t, 8, 6, 2), "cosines", 3, 18},
		{studenttest.Images(t, 8, 6, 2), "cosines", 6, 72},
	} {
		o := DefaultOptions()
		o.Teacher.Features, o.Teacher.Cosines = c.features, c.cosines
		o = o.ChosenFor(c.e)
		if o.Seen(c.e) != c.want || o.Directions != c.want || o.projects(c.want) {
			t.Errorf("%s: %d numbers in %d directions, want %d", c.features, o.Seen(c.e), o.Directions, c.want)
		}
	}
}

func made(t *testing.T) func(Options) error {
	e := studenttest.Table(t)
	return func(o Options) error {
		_, err := New(o, e, 2, 1)
		return err
	}
}

func TestValidateNamesTheField(t *testing.T) {
	studenttest.RefusesOptions(t, "gpate", DefaultOptions, map[string]string{
		"answers": "'' all", "rounds": "-1 1000001", "records": "-1 65537", "directions": "-1 1048577", "bins": "1 257",
		"clip": "0 -1 .nan .inf 1e-31", "norm": "-1 .nan .inf", "mechanism": "lnmax ''", "noise": "-1 .nan .inf",
		"threshold": "0 1.5 .nan", "threshold_noise": "0 .inf", "class_epsilon": "0 .nan", "quorum": "0 1.01",
		"deadline": "0 .nan", "teacher.model": "tree", "teacher.hidden": "-1 4097", "teacher.networks": "'' two",
		"teacher.features": "raw", "teacher.cosines": "-1 1025", "teacher.memory": "none", "teacher.steps": "-1 10001",
		"teacher.batch": "0", "teacher.training": "-1 65537", "teacher.rate": "-1 101", "teacher.decay": "-2 .nan",
		"student.generator": "transformer", "student.warp": "-2 .nan 11", "student.noise": "0", "student.hidden": "-1",
		"student.layers": "0 17", "student.follow": "climb", "student.step": "-1 .nan", "student.step_end": "-1 .inf",
		"student.generator_steps": "-1", "student.generator_rate": "0 .nan", "student.average": "1 -2 .nan",
	}, made(t))
	fast := func() Options { return studenttest.With(t, DefaultOptions(), "teacher: {rate: 0.5}") }
	studenttest.RefusesOptions(t, "gpate", fast, map[string]string{"teacher.decay": "2"}, made(t))
}

// Options that cannot work for the records are refused before anything is asked.
func TestCheckForNamesTheField(t *testing.T) {
	table, images, odd := studenttest.Table(t), studenttest.Images(t, 8, 8, 1), studenttest.Images(t, 7, 9, 1)
	large := studenttest.Images(t, 120, 120, 3)
	for name, c := range map[string]struct {
		e    *encode.Encoder
		set  string
		want string // empty: it works
	}{
		"a table":        {table, "", ""},
		"images":         {images, "", ""},
		"all directions": {table, "{answers: winner, directions: 7}", ""},
		"more directions than columns": {table, "{answers: winner, directions: 8}",
			"gpate.directions: 8 are more than the 7 features"},
		"of sums":                      {table, "directions: 8", "gpate.directions: 8 are more than the 7 features"},
		"more directions than cosines": {images, "directions: 10", "gpate.directions: 10 are more than the 9 features"},
		"all cosines":                  {images, "teacher: {cosines: 8}", ""},
		"more cosines than pixels": {images, "teacher: {cosines: 9}",
			"gpate.teacher.cosines: 9 frequencies are more than the pixels of an image's side, 8"},
		"of the shorter side": {odd, "teacher: {cosines: 8}", "image's side, 7"},
		"too many votes": {table, "{answers: winner, directions: 7, records: 9363, bins: 2}",
			"gpate.records: 9363 with 7 directions are 65541 votes a round, more than 65536"},
		"too many counts": {table, "{answers: winner, directions: 7, records: 1873, bins: 10}",
			"gpate.records: 1873 with 7 directions of 10 bins are 131110 counts a round, more than 131072"},
		"as many counts as can be": {table, "{answers: winner, directions: 4, records: 128, bins: 256}", ""},
		"too many numbers": {table, "records: 18725",
			"gpate.records: 18725 of 7 numbers are 131075 in a round, more than 131072"},
		"too large a round": {large, "teacher: {training: 400}",
			"gpate.teacher.training: 400 records to train on and 12 to ask about are 17798400 numbers"},
		"convolutions of a table": {table, "teacher: {model: convolution, features: plain}",
			"gpate.teacher.model: convolution is for images only"},
		"generated by convolution": {table, "student: {generator: convolution}",
			"gpate.student.generator: convolution is for images only"},
		"decay beside a chosen rate": {table, "teacher: {rate: 0, decay: 11}", "gpate.teacher.decay: 11 is not"},
		"networks of energy": {images, "teacher: {model: energy, networks: one}",
			"gpate.teacher.networks: energy teachers have no networks"},
		"cosines of a table": {table, "teacher: {features: cosines}",
			"gpate.teacher.features: cosines is for images only"},
		"standard images": {images, "teacher: {features: standard}",
			"gpate.teacher.features: standard is for tables only"},
		"tilted images":        {images, "student: {follow: tilt}", "gpate.student.follow: tilt is for tables only"},
		"a warped table":       {table, "student: {warp: 1}", "gpate.student.warp is for images only"},
		"one logistic network": {table, "teacher: {networks: one}", "gpate.teacher.networks: one logistic network"},
		"one hidden network":   {table, "teacher: {networks: one, model: hidden}", ""},
		"convolved cosines": {images, "teacher: {model: convolution}",
			"gpate.teacher.model: convolution needs to see pixels"},
		"convolved pixels":        {images, "teacher: {model: convolution, features: plain}", ""},
		"a convolutional student": {images, "student: {generator: convolution}", ""},
		"images that do not halve": {odd, "student: {generator: convolution}",
			"gpate.student: a generator of kind convolution cannot make images of 7 x 9"},
		"too large a projection": {large, "{directions: 2000, records: 2, teacher: {features: plain, training: 10}}",
			"gpate.directions: projection of 43200 features to 2000 directions is more than 67108864 numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			o := smallOptions()
			if c.e.Image() != nil {
				o = imageOptions()
			}
			o = studenttest.With(t, o, c.set)
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
	// All errors are reported, in the same order each time.
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
