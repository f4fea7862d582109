package embed_test

import (
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/embed"
)

// Every rule of Validate, by the name of its field.
func TestOptionsThatCannotWork(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for want, change := range map[string]func(o *embed.Options){
		"embed.noise: -1 is not 0 (chosen) or above":              func(o *embed.Options) { o.Noise = -1 },
		"embed.noise: NaN":                                        func(o *embed.Options) { o.Noise = nan },
		"embed.noise: +Inf":                                       func(o *embed.Options) { o.Noise = inf },
		"embed.quorum: 0 is not a share of the teachers":          func(o *embed.Options) { o.Quorum = 0 },
		"embed.quorum: 1.5":                                       func(o *embed.Options) { o.Quorum = 1.5 },
		"embed.quorum: NaN":                                       func(o *embed.Options) { o.Quorum = nan },
		"embed.deadline: 0 is not between 0.001 and 86400":        func(o *embed.Options) { o.Deadline = 0 },
		"embed.deadline: 86401":                                   func(o *embed.Options) { o.Deadline = 86401 },
		"embed.deadline: NaN":                                     func(o *embed.Options) { o.Deadline = nan },
		"embed.features.count: -1 is not between 1e-06 and 1e+06": func(o *embed.Options) { o.Features.Count = -1 },
		"embed.features.count: 1e-07":                             func(o *embed.Options) { o.Features.Count = 1e-7 },
		"embed.features.count: NaN":                               func(o *embed.Options) { o.Features.Count = nan },
		"embed.features.count: 2e+06":                             func(o *embed.Options) { o.Features.Count = 2e6 },
		"embed.features.columns: -2 is not between":               func(o *embed.Options) { o.Features.Columns = -2 },
		"embed.features.columns: NaN":                             func(o *embed.Options) { o.Features.Columns = nan },
		"embed.features.pairs: -0.5":                              func(o *embed.Options) { o.Features.Pairs = -0.5 },
		"embed.features.pairs: +Inf":                              func(o *embed.Options) { o.Features.Pairs = inf },
		"embed.features.fourier: 1e-07":                           func(o *embed.Options) { o.Features.Fourier = 1e-7 },
		"embed.features.fourier: NaN":                             func(o *embed.Options) { o.Features.Fourier = nan },
		"embed.features.bins: 1 is not between 2 and 1024":        func(o *embed.Options) { o.Features.Bins = 1 },
		"embed.features.bins: -3":                                 func(o *embed.Options) { o.Features.Bins = -3 },
		"embed.features.bins: 1025":                               func(o *embed.Options) { o.Features.Bins = 1025 },
		"embed.features.most_pairs: -1":                           func(o *embed.Options) { o.Features.MostPairs = -1 },
		"embed.features.most_pairs: 131073": func(o *embed.Options) {
			o.Features.MostPairs = 1<<17 + 1
		},
		"embed.features.waves: -1":    func(o *embed.Options) { o.Features.Waves = -1 },
		"embed.features.waves: 65537": func(o *embed.Options) { o.Features.Waves = 1<<16 + 1 },
		"embed.features.scales[1]: 0 is not between 0.001 and 1e6": func(o *embed.Options) {
			o.Features.Scales = []float64{1, 0}
		},
		"embed.features.scales[0]: NaN": func(o *embed.Options) { o.Features.Scales = []float64{nan} },
		"embed.features.scales[0]: +Inf": func(o *embed.Options) {
			o.Features.Scales = []float64{inf}
		},
		"embed.fit.steps: -1":                                   func(o *embed.Options) { o.Fit.Steps = -1 },
		"embed.fit.steps: 1.0000001e+07":                        func(o *embed.Options) { o.Fit.Steps = 1e7 + 1 },
		"embed.fit.batch: -1":                                   func(o *embed.Options) { o.Fit.Batch = -1 },
		"embed.fit.batch: 1.048577e+06":                         func(o *embed.Options) { o.Fit.Batch = 1<<20 + 1 },
		"embed.fit.step_size: -1 is not between 1e-12 and 1000": func(o *embed.Options) { o.Fit.StepSize = -1 },
		"embed.fit.step_size: NaN":                              func(o *embed.Options) { o.Fit.StepSize = nan },
		"embed.fit.step_size: 1001":                             func(o *embed.Options) { o.Fit.StepSize = 1001 },
		"embed.fit.step_end: 1e-13":                             func(o *embed.Options) { o.Fit.StepEnd = 1e-13 },
		"embed.fit.step_end: NaN":                               func(o *embed.Options) { o.Fit.StepEnd = nan },
		"embed.fit.memory: 1 is not at least 0 and below 1":     func(o *embed.Options) { o.Fit.Memory = 1 },
		"embed.fit.memory: -0.5":                                func(o *embed.Options) { o.Fit.Memory = -0.5 },
		"embed.fit.memory: NaN":                                 func(o *embed.Options) { o.Fit.Memory = nan },
		"embed.fit.average: 1 is not at least 0 and below 1":    func(o *embed.Options) { o.Fit.Average = 1 },
		"embed.fit.average: NaN":                                func(o *embed.Options) { o.Fit.Average = nan },
		`embed.student.generator: "linear" is not one of`: func(o *embed.Options) {
			o.Student.Generator = "linear"
		},
		"embed.student.warp: 11 is not between 0 and 10":    func(o *embed.Options) { o.Student.Warp = 11 },
		"embed.student.warp: -0.5":                          func(o *embed.Options) { o.Student.Warp = -0.5 },
		"embed.student.warp: NaN":                           func(o *embed.Options) { o.Student.Warp = nan },
		"embed.student.noise: -1 is not between 0 and 4096": func(o *embed.Options) { o.Student.Noise = -1 },
		"embed.student.noise: 4097":                         func(o *embed.Options) { o.Student.Noise = 4097 },
		"embed.student.hidden: -1":                          func(o *embed.Options) { o.Student.Hidden = -1 },
		"embed.student.hidden: 4097":                        func(o *embed.Options) { o.Student.Hidden = 4097 },
		"embed.student.layers: -1":                          func(o *embed.Options) { o.Student.Layers = -1 },
		"embed.student.layers: 17":                          func(o *embed.Options) { o.Student.Layers = 17 },
	} {
		for _, o := range []embed.Options{smallOptions(), embed.DefaultOptions()} {
			change(&o)
			err := o.Validate()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
				continue
			}
			if strings.Count(err.Error(), "embed.") != 1 {
				t.Errorf("%q says more than %q", err, want)
			}
			// Nothing is made of them.
			if _, err := embed.New(o, encoderOf(t, tableSchema), 2, 1); err == nil {
				t.Errorf("%s: a student was made", want)
			}
			if _, err := embed.NewStart(o, encoderOf(t, tableSchema), 2, 1, nil, unwatched); err == nil {
				t.Errorf("%s: a start was made", want)
			}
		}
	}
	o := smallOptions()
	for range 17 {
		o.Features.Scales = append(o.Features.Scales, 1)
	}
	if err := o.Validate(); err == nil ||
		!strings.Contains(err.Error(), "embed.features.scales: 18 of them, and 16 is the most") {
		t.Errorf("too many scales: %v", err)
	}
	// All that is wrong is said at once.
	o = embed.Options{Noise: -1}
	o.Fit.Steps = -5
	if err := o.Validate(); err == nil || strings.Count(err.Error(), "embed.") != 4 {
		t.Errorf("four mistakes: %v", err)
	}
	for _, o := range []embed.Options{embed.DefaultOptions(), smallOptions(), imageOptions()} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// What is left to be chosen is chosen for each kind of data, works, and stays when it is
// chosen again; what is set stays as it is.
func TestOptionsAreChosenForTheData(t *testing.T) {
	for name, v := range variants() {
		e := encoderOf(t, v.schema)
		o := embed.DefaultOptions().ChosenFor(e, v.classes, 0)
		if err := o.CheckFor(e, v.classes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f, fit, s := o.Features, o.Fit, o.Student
		if !(f.Count > 0) || f.Columns < 0 || f.Pairs < 0 || f.Fourier < 0 || f.Bins < 2 || f.MostPairs < 1 ||
			f.Waves < 1 || len(f.Scales) < 1 ||
			fit.Steps < 1 || fit.Batch < 1 || !(fit.StepSize > 0) || !(fit.StepEnd > 0) || fit.Memory < 0 ||
			fit.Average < 0 ||
			s.Generator == "" || s.Warp < 0 || s.Noise < 1 || s.Hidden < 1 || s.Layers < 1 {
			t.Errorf("%s: not all is chosen: %+v", name, o)
		}
		if images := e.Image() != nil; images && f.Columns+f.Pairs > 0 {
			t.Errorf("%s: %+v", name, f)
		}
		q, err := o.Question(e, v.classes)
		if err != nil || q.Classes != v.classes || q.Entries < 1 || q.Entries%v.classes != 0 || !(q.Norm > 0) ||
			len(q.Parts) == 0 || q.Parts[0].Weight != f.Count {
			t.Errorf("%s: question %+v, %v", name, q, err)
		}
		if again, err := o.ChosenFor(e, v.classes, 0).Question(e, v.classes); err != nil ||
			again.Entries != q.Entries || again.Norm != q.Norm {
			t.Errorf("%s: chosen again it asks %+v, %v", name, again, err)
		}

		set := v.o.ChosenFor(e, v.classes, 0)
		if err := set.CheckFor(e, v.classes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if set.Fit != v.o.Fit || set.Student != v.o.Student || set.Features.Columns != v.o.Features.Columns ||
			set.Features.Pairs != v.o.Features.Pairs ||
			set.Features.Waves != v.o.Features.Waves || set.Features.Bins != v.o.Features.Bins ||
			set.Features.Scales[0] != v.o.Features.Scales[0] {
			t.Errorf("%s: %+v became %+v", name, v.o, set)
		}
	}
}

// What cannot work for the data is said with the field.
func TestOptionsThatDoNotFitTheData(t *testing.T) {
	for name, c := range map[string]struct {
		schema  string
		classes int
		change  func(o *embed.Options)
		want    string
	}{
		"columns of images": {imageSchema, 2, func(o *embed.Options) {
			o.Features.Columns = 1
		}, "embed.features: columns and pairs are for tables only"},
		"pairs of images": {imageSchema, 2, func(o *embed.Options) {
			o.Features.Pairs = 0.1
		}, "embed.features: columns and pairs are for tables only"},
		"a convolution": {tableSchema, 2, func(o *embed.Options) {
			o.Student.Generator = "convolution"
		}, "embed.student.generator: convolution is for images only"},
		"warps of a table": {tableSchema, 2, func(o *embed.Options) {
			o.Student.Warp = 1
		}, "embed.student.warp is for images only"},
		"nothing to match": {tableSchema, 2, func(o *embed.Options) {
			o.Features.Columns, o.Features.Pairs, o.Features.Fourier = 0, 0, 0
		},
			"embed.features: columns, pairs and fourier are all 0"},
		"nothing of images": {imageSchema, 2, func(o *embed.Options) { o.Features.Fourier = 0 }, "are all 0"},
		"too many numbers": {tableSchema, 2, func(o *embed.Options) {
			o.Features.Waves = 1 << 16
		}, "embed.features: embedding: part"},
		"too many for the classes": {tableSchema, 1 << 17, func(*embed.Options) {}, "embed.features: embedding:"},
		"a convolution that does not fit": {imageSchema, 2, func(o *embed.Options) {
			o.Student.Generator, o.Student.Layers = "convolution", 5
		}, "embed.student: "},
	} {
		o, e := embed.DefaultOptions(), encoderOf(t, c.schema)
		c.change(&o)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := o.ChosenFor(e, c.classes, 0).CheckFor(e, c.classes)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := embed.New(o, e, c.classes, 1); err == nil {
			t.Errorf("%s: a student was made", name)
		}
		if _, err := embed.NewStart(o, e, c.classes, 1, nil, unwatched); err == nil {
			t.Errorf("%s: a start was made", name)
		}
	}
	// A table of one column has no pairs, which is no mistake where there is more to match.
	o := embed.DefaultOptions()
	e := encoderOf(t, oneColumnSchema)
	if err := o.ChosenFor(e, 1, 0).CheckFor(e, 1); err != nil {
		t.Error(err)
	}
}
