package dpgan

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/partition/encode"
)

// Every rule of Validate, by the name of its field; what is wrong beside it is named too.
func TestOptionsThatCannotWork(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for want, change := range map[string]func(o *Options){
		"dpgan.steps: -1 is not between 0 and 100000":      func(o *Options) { o.Steps = -1 },
		"dpgan.steps: 100001":                              func(o *Options) { o.Steps = 100_001 },
		"dpgan.rate: -0.1 is not between 1e-09 and 1":      func(o *Options) { o.Rate = -0.1 },
		"dpgan.rate: 1e-10":                                func(o *Options) { o.Rate = 1e-10 },
		"dpgan.rate: 1.01":                                 func(o *Options) { o.Rate = 1.01 },
		"dpgan.rate: NaN":                                  func(o *Options) { o.Rate = nan },
		"dpgan.batch: -5 is below 0":                       func(o *Options) { o.Rate, o.Batch = 0, -5 },
		"dpgan.units: -7 is below 0":                       func(o *Options) { o.Rate, o.Units = 0, -7 },
		"dpgan.batch: 5 needs units":                       func(o *Options) { o.Rate, o.Batch = 0, 5 },
		"dpgan.batch: 9 is larger than units, 8":           func(o *Options) { o.Rate, o.Batch, o.Units = 0, 9, 8 },
		"dpgan.batch: 4 and rate: 0.5 both say":            func(o *Options) { o.Batch, o.Units = 4, 8 },
		"dpgan.clip: -1 is not between 1e-09 and 1e+09":    func(o *Options) { o.Clip = -1 },
		"dpgan.clip: 1e-10":                                func(o *Options) { o.Clip = 1e-10 },
		"dpgan.clip: 1e+10":                                func(o *Options) { o.Clip = 1e10 },
		"dpgan.clip: NaN":                                  func(o *Options) { o.Clip = nan },
		"dpgan.clip: +Inf":                                 func(o *Options) { o.Clip = inf },
		"dpgan.noise: -1 is not 0 (chosen) or above":       func(o *Options) { o.Noise = -1 },
		"dpgan.noise: NaN":                                 func(o *Options) { o.Noise = nan },
		"dpgan.noise: +Inf":                                func(o *Options) { o.Noise = inf },
		"dpgan.class_epsilon: 0 is not above 0":            func(o *Options) { o.ClassEpsilon = 0 },
		"dpgan.class_epsilon: NaN":                         func(o *Options) { o.ClassEpsilon = nan },
		"dpgan.class_epsilon: +Inf":                        func(o *Options) { o.ClassEpsilon = inf },
		"dpgan.quorum: 0 is not a share of the teachers":   func(o *Options) { o.Quorum = 0 },
		"dpgan.quorum: 1.5":                                func(o *Options) { o.Quorum = 1.5 },
		"dpgan.quorum: NaN":                                func(o *Options) { o.Quorum = nan },
		"dpgan.deadline: 0 is not between 0.001 and 86400": func(o *Options) { o.Deadline = 0 },
		"dpgan.deadline: 86401":                            func(o *Options) { o.Deadline = 86401 },
		`dpgan.discriminator.kind: "linear" is not one of`: func(o *Options) { o.Discriminator.Kind = "linear" },
		"dpgan.discriminator.hidden: -1":                   func(o *Options) { o.Discriminator.Hidden = -1 },
		"dpgan.discriminator.hidden: 65537":                func(o *Options) { o.Discriminator.Hidden = 65537 },
		"dpgan.discriminator.layers: -2":                   func(o *Options) { o.Discriminator.Layers = -2 },
		"dpgan.discriminator.layers: 17":                   func(o *Options) { o.Discriminator.Layers = 17 },
		`dpgan.discriminator.classes: "all" is not one of`: func(o *Options) { o.Discriminator.Classes = "all" },
		`dpgan.discriminator.features: "squares" is not one of`: func(o *Options) {
			o.Discriminator.Features = "squares"
		},
		"dpgan.discriminator.fourier: -2":                 func(o *Options) { o.Discriminator.Fourier = -2 },
		"dpgan.discriminator.fourier: 131073":             func(o *Options) { o.Discriminator.Fourier = 131073 },
		"dpgan.discriminator.cosines: -1":                 func(o *Options) { o.Discriminator.Cosines = -1 },
		"dpgan.discriminator.cosines: 1025":               func(o *Options) { o.Discriminator.Cosines = 1025 },
		`dpgan.discriminator.loss: "hinge" is not one of`: func(o *Options) { o.Discriminator.Loss = "hinge" },
		`dpgan.discriminator.optimizer: "rmsprop" is not one of`: func(o *Options) {
			o.Discriminator.Optimizer = "rmsprop"
		},
		"dpgan.discriminator.step_size: 1e-13": func(o *Options) { o.Discriminator.StepSize = 1e-13 },
		"dpgan.discriminator.step_size: 1e+07": func(o *Options) { o.Discriminator.StepSize = 1e7 },
		"dpgan.discriminator.step_size: NaN":   func(o *Options) { o.Discriminator.StepSize = nan },
		"dpgan.discriminator.step_end: -1":     func(o *Options) { o.Discriminator.StepEnd = -1 },
		"dpgan.discriminator.step_end: NaN":    func(o *Options) { o.Discriminator.StepEnd = nan },
		"dpgan.discriminator.momentum: 1 is not at least 0 and below 1": func(o *Options) {
			o.Discriminator.Momentum = 1
		},
		"dpgan.discriminator.momentum: -0.5":                func(o *Options) { o.Discriminator.Momentum = -0.5 },
		"dpgan.discriminator.momentum: NaN":                 func(o *Options) { o.Discriminator.Momentum = nan },
		"dpgan.discriminator.decay: -0.5 is not at least 0": func(o *Options) { o.Discriminator.Decay = -0.5 },
		"dpgan.discriminator.decay: 2": func(o *Options) {
			o.Discriminator.Decay, o.Discriminator.StepSize = 2, 0.5
		},
		"dpgan.discriminator.decay: NaN":  func(o *Options) { o.Discriminator.Decay = nan },
		"dpgan.discriminator.decay: +Inf": func(o *Options) { o.Discriminator.Decay = inf },
		"dpgan.discriminator.memory: 1.1 is not between 0 and 1": func(o *Options) {
			o.Discriminator.Memory = 1.1
		},
		"dpgan.discriminator.memory: -0.1":  func(o *Options) { o.Discriminator.Memory = -0.1 },
		"dpgan.discriminator.memory: NaN":   func(o *Options) { o.Discriminator.Memory = nan },
		"dpgan.discriminator.reuse: -1":     func(o *Options) { o.Discriminator.Reuse = -1 },
		"dpgan.discriminator.reuse: 1001":   func(o *Options) { o.Discriminator.Reuse = 1001 },
		"dpgan.discriminator.generated: -1": func(o *Options) { o.Discriminator.Generated = -1 },
		"dpgan.discriminator.generated: 1.048577e+06": func(o *Options) {
			o.Discriminator.Generated = 1<<20 + 1
		},
		`dpgan.student.generator: "linear" is not one of`: func(o *Options) {
			o.Student.Generator = "linear"
		},
		"dpgan.student.warp: 11 is not between 0 and 10":   func(o *Options) { o.Student.Warp = 11 },
		"dpgan.student.warp: -0.5":                         func(o *Options) { o.Student.Warp = -0.5 },
		"dpgan.student.warp: NaN":                          func(o *Options) { o.Student.Warp = nan },
		"dpgan.student.noise: 0 is not between 1 and 4096": func(o *Options) { o.Student.Noise = 0 },
		"dpgan.student.noise: 4097":                        func(o *Options) { o.Student.Noise = 4097 },
		"dpgan.student.hidden: -1":                         func(o *Options) { o.Student.Hidden = -1 },
		"dpgan.student.hidden: 4097":                       func(o *Options) { o.Student.Hidden = 4097 },
		"dpgan.student.layers: 0 is not between 1 and 16":  func(o *Options) { o.Student.Layers = 0 },
		"dpgan.student.layers: 17":                         func(o *Options) { o.Student.Layers = 17 },
		`dpgan.student.follow: "move" is not one of`: func(o *Options) {
			o.Student.Follow = "move"
		},
		"dpgan.student.every: -1": func(o *Options) { o.Student.Every = -1 },
		"dpgan.student.every: 1.000001e+06": func(o *Options) {
			o.Student.Every = 1_000_001
		},
		"dpgan.student.adapt: 1 is not at least 0 (n_D stays) and below": func(o *Options) { o.Student.Adapt = 1 },
		"dpgan.student.adapt: -0.5":                                      func(o *Options) { o.Student.Adapt = -0.5 },
		"dpgan.student.adapt: NaN":                                       func(o *Options) { o.Student.Adapt = nan },
		"dpgan.student.steps: -1":                                        func(o *Options) { o.Student.Steps = -1 },
		"dpgan.student.steps: 1.000001e+06": func(o *Options) {
			o.Student.Steps = 1_000_001
		},
		"dpgan.student.batch: -1":                                func(o *Options) { o.Student.Batch = -1 },
		"dpgan.student.batch: 1.048577e+06":                      func(o *Options) { o.Student.Batch = 1<<20 + 1 },
		"dpgan.student.step_size: 1e-13":                         func(o *Options) { o.Student.StepSize = 1e-13 },
		"dpgan.student.step_size: 1001":                          func(o *Options) { o.Student.StepSize = 1001 },
		"dpgan.student.step_size: NaN":                           func(o *Options) { o.Student.StepSize = nan },
		"dpgan.student.step_end: -1":                             func(o *Options) { o.Student.StepEnd = -1 },
		"dpgan.student.step_end: NaN":                            func(o *Options) { o.Student.StepEnd = nan },
		"dpgan.student.average: 1 is not at least 0 and below 1": func(o *Options) { o.Student.Average = 1 },
		"dpgan.student.average: -0.5":                            func(o *Options) { o.Student.Average = -0.5 },
		"dpgan.student.average: NaN":                             func(o *Options) { o.Student.Average = nan },
		"dpgan.student.keep: -1":                                 func(o *Options) { o.Student.Keep = -1 },
		"dpgan.student.keep: 1001":                               func(o *Options) { o.Student.Keep = 1001 },
	} {
		o := smallOptions()
		change(&o)
		err := o.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q alone", err, want)
		}
		if _, err := New(o, tableEncoder(t), 2, 1); err == nil {
			t.Errorf("%s: made", want)
		}
		o.Quorum, o.Student.Noise = 7, 0
		if err := o.Validate(); !strings.Contains(fmt.Sprint(err), "dpgan.quorum: 7") ||
			!strings.Contains(fmt.Sprint(err), "dpgan.student.noise: 0") {
			t.Errorf("two more mistakes are not named in %v", err)
		}
	}
	for name, o := range map[string]Options{"the defaults": DefaultOptions(), "small": smallOptions(),
		"climbing": climbOptions(), "images": imageOptions()} {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	at := smallOptions() // bounds themselves
	at.Rate, at.Batch, at.Units, at.Clip, at.Steps, at.Quorum = 0, 8, 8, 1e-9, 100_000, 1
	if err := at.Validate(); err != nil {
		t.Error(err)
	}
}

// Every rule of CheckFor: what is right by itself and does not go with the records, or with
// what was chosen for another field.
func TestOptionsThatDoNotFitTheRecords(t *testing.T) {
	table, images := tableEncoder(t), imageEncoder(t)
	for name, c := range map[string]struct {
		e      *encode.Encoder
		o      Options
		change func(o *Options)
		want   string // nothing: it works
	}{
		"a table":           {table, smallOptions(), func(*Options) {}, ""},
		"defaults, a table": {table, DefaultOptions(), func(*Options) {}, ""},
		"defaults, images":  {images, DefaultOptions(), func(*Options) {}, ""},
		"images":            {images, imageOptions(), func(*Options) {}, ""},
		"a batch of units":  {table, DefaultOptions(), func(o *Options) { o.Batch, o.Units = 50, 1000 }, ""},
		"a tiny batch": {table, DefaultOptions(), func(o *Options) {
			o.Batch, o.Units = 1, 2_000_000_000
		}, "dpgan.rate: 5e-10 is not between"},
		"a convolution": {table, smallOptions(), func(o *Options) {
			o.Discriminator.Kind = "convolution"
		}, "dpgan.discriminator.kind: convolution is for images only"},
		"cosines": {table, smallOptions(), func(o *Options) {
			o.Discriminator.Features = "cosines"
		}, "dpgan.discriminator.features: cosines is for images only"},
		"a table's picture": {table, smallOptions(), func(o *Options) {
			o.Student.Generator = "convolution"
		}, "dpgan.student.generator: convolution is for images only"},
		"a warped table": {table, smallOptions(), func(o *Options) {
			o.Student.Warp = 1
		}, "dpgan.student.warp is for images only"},
		"many cosines": {images, climbOptions(), func(o *Options) {
			o.Discriminator.Features, o.Discriminator.Cosines = "cosines", 9
		}, "dpgan.discriminator.cosines: 9 frequencies are more than the pixels of an image's side, 8"},
		"tilted images": {images, climbOptions(), func(o *Options) {
			o.Student.Follow = Tilt
		}, "dpgan.student.follow: tilt is for tables only"},
		"standard images": {images, climbOptions(), func(o *Options) {
			o.Discriminator.Features = "standard"
		}, "dpgan.discriminator.features: standard is for tables only"},
		"images in pieces": {images, climbOptions(), func(o *Options) {
			o.Discriminator.Features = "pieces"
		}, "dpgan.discriminator.features: pieces is for tables only"},
		"a tilt by reuse": {table, smallOptions(), func(o *Options) {
			o.Discriminator.Reuse = 2
		}, "dpgan.discriminator.reuse: 2 steps on a release"},
		"a tilt by distance": {table, smallOptions(), func(o *Options) {
			o.Discriminator.Loss = Wasserstein
		}, "dpgan.student.follow: tilt needs a discriminator whose score is a log-ratio"},
		"a tilt by ratios": {table, smallOptions(), func(o *Options) {
			o.Discriminator.Loss = KLWGAN
		}, "and loss kl-wgan gives none"},
		"a tilt by default": {table, DefaultOptions(), func(o *Options) {
			o.Student.Follow = Tilt
		}, "dpgan.student.follow: tilt needs"},
		"a decay too large": {table, DefaultOptions(), func(o *Options) { // of the chosen step size, 0.3
			o.Discriminator.Decay = 4
		}, "dpgan.discriminator.decay: 4 is not at least 0 and below 1/step_size"},
		"an infinite decay": {table, DefaultOptions(), func(o *Options) {
			o.Discriminator.Decay = math.Inf(1)
		}, "dpgan.discriminator.decay: +Inf"},
		"a discriminator": {table, smallOptions(), func(o *Options) {
			o.Discriminator.Layers, o.Discriminator.Hidden = 2, 4096
		}, "dpgan.discriminator: a discriminator of more than 131072 weights"},
		"a convolution's input": {images, imageOptions(), func(o *Options) {
			o.Discriminator.Features = "cosines"
		}, "dpgan.discriminator: a discriminator of kind convolution sees pixels"},
		"a linear convolution": {images, imageOptions(), func(o *Options) {
			o.Discriminator.Layers = 0
		}, "dpgan.discriminator: a discriminator of kind convolution needs at least one layer"},
		"halved too often": {images, imageOptions(), func(o *Options) {
			o.Discriminator.Layers = 4
		}, "dpgan.discriminator: an image of 8 x 8 cannot be halved 4 times"},
		"a generator": {images, imageOptions(), func(o *Options) {
			o.Student.Generator, o.Student.Layers = "convolution", 4
		}, "dpgan.student: a generator of kind convolution with layers 4 cannot make images of 8 x 8"},
		"all at once": {images, climbOptions(), func(o *Options) {
			o.Discriminator.Features, o.Student.Follow, o.Discriminator.Loss = "pieces", Tilt, Wasserstein
		}, "dpgan.student.follow: tilt is for tables only; use climb\ndpgan.discriminator.features: pieces is for " +
			"tables only; use plain or cosines\ndpgan.student.follow: tilt needs"},
	} {
		c.change(&c.o)
		err := c.o.ChosenFor(c.e).CheckFor(c.e, 2)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if _, made := New(c.o, c.e, 2, 1); (made != nil) != (err != nil) {
			t.Errorf("%s: made with %v", name, made)
		}
	}
}

// What is chosen stays when it is chosen again, and what was set stays what it is.
func TestChoicesStay(t *testing.T) {
	for name, e := range map[string]*encode.Encoder{"table": tableEncoder(t), "images": imageEncoder(t)} {
		o := DefaultOptions().ChosenFor(e)
		if again := o.ChosenFor(e); again != o {
			t.Errorf("%s: chosen\n%+v, again\n%+v", name, o, again)
		}
		o.Rate, o.Discriminator.Momentum, o.Discriminator.Memory, o.Student.Average = 0.125, 0, 0, 0
		if again := o.ChosenFor(e); again != o {
			t.Errorf("%s: set\n%+v, chosen\n%+v", name, o, again)
		}
	}
	o := DefaultOptions()
	o.Batch, o.Units = 25, 200
	if o = o.ChosenFor(tableEncoder(t)); o.Rate != 0.125 || o.Batch != 0 || o.Units != 0 {
		t.Errorf("25 of 200 are rate %v, batch %d, units %d", o.Rate, o.Batch, o.Units)
	}
}
