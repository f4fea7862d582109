package dpgan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/partition/encode"
)

func made(t *testing.T) func(Options) error {
	e := studenttest.Table(t)
	return func(o Options) error {
		_, err := New(o, e, 2, 1)
		return err
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	studenttest.RefusesOptions(t, "dpgan", smallOptions, map[string]string{
		"steps": "-1 100001", "rate": "-0.1 1e-10 1.01 .nan", "clip": "-1 1e-10 1e10 .nan .inf",
		"noise": "-1 .nan .inf", "class_epsilon": "0 .nan .inf", "quorum": "0 1.5 .nan", "deadline": "0 86401",
		"discriminator.kind": "linear", "discriminator.hidden": "-1 65537", "discriminator.layers": "-2 17",
		"discriminator.classes": "all", "discriminator.features": "squares", "discriminator.fourier": "-2 131073",
		"discriminator.cosines": "-1 1025", "discriminator.loss": "hinge", "discriminator.optimizer": "rmsprop",
		"discriminator.step_size": "1e-13 1e7 .nan", "discriminator.step_end": "-1 .nan",
		"discriminator.momentum": "1 -0.5 .nan", "discriminator.decay": "-0.5 1 .nan .inf",
		"discriminator.memory": "1.1 -0.1 .nan", "discriminator.reuse": "-1 1001", "discriminator.generated": "-1 " +
			"1048577",
		"student.generator": "linear", "student.warp": "11 -0.5 .nan", "student.noise": "0 4097",
		"student.hidden": "-1 4097",
		"student.layers": "0 17", "student.follow": "move", "student.every": "-1 1000001", "student.adapt": "1 -0.5 " +
			".nan",
		"student.steps": "-1 1000001", "student.batch": "-1 1048577", "student.step_size": "1e-13 1001 .nan",
		"student.step_end": "-1 .nan", "student.average": "1 -0.5 .nan", "student.keep": "-1 1001",
	}, made(t))
	unset := func() Options {
		o := smallOptions()
		o.Rate = 0
		return o
	}
	studenttest.RefusesOptions(t, "dpgan", unset, map[string]string{"batch": "-5 5", "units": "-7"}, made(t))
	for want, sizes := range map[string]Options{
		"dpgan.batch: 9 is larger than units, 8": {Batch: 9, Units: 8},
		"dpgan.batch: 4 and rate: 0.5 both set":  {Rate: 0.5, Batch: 4, Units: 8},
	} {
		o := smallOptions()
		o.Rate, o.Batch, o.Units = sizes.Rate, sizes.Batch, sizes.Units
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		// All errors are reported at once.
		o.Quorum, o.Student.Noise = 7, 0
		if err := fmt.Sprint(o.Validate()); !strings.Contains(err, want) || !strings.Contains(err, "dpgan.quorum: 7") ||
			!strings.Contains(err, "dpgan.student.noise: 0") {
			t.Errorf("two more mistakes are not named in %v", err)
		}
	}
	for name, o := range map[string]Options{"the defaults": DefaultOptions(), "small": smallOptions(),
		"climbing": climbOptions(), "images": imageOptions()} {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	at := smallOptions() // the bounds themselves
	at.Rate, at.Batch, at.Units, at.Clip, at.Steps, at.Quorum = 0, 8, 8, 1e-9, 100_000, 1
	if err := at.Validate(); err != nil {
		t.Error(err)
	}
}

// Every rule of CheckFor: values that are valid by themselves and conflict with the records, or with the chosen
// value of another field.
func TestOptionsThatDoNotFitTheRecords(t *testing.T) {
	table, images := studenttest.Table(t), studenttest.Images(t, 8, 8, 1)
	for name, c := range map[string]struct {
		e    *encode.Encoder
		o    Options
		set  string
		want string // empty: it works
	}{
		"a table":           {table, smallOptions(), "", ""},
		"defaults, a table": {table, DefaultOptions(), "", ""},
		"defaults, images":  {images, DefaultOptions(), "", ""},
		"images":            {images, imageOptions(), "", ""},
		"a batch of units":  {table, DefaultOptions(), "{batch: 50, units: 1000}", ""},
		"a tiny batch": {table, DefaultOptions(), "{batch: 1, units: 2000000000}",
			"dpgan.rate: 5e-10 is not between"},
		"a convolution": {table, smallOptions(), "discriminator: {kind: convolution}",
			"dpgan.discriminator.kind: convolution is for images only"},
		"cosines": {table, smallOptions(), "discriminator: {features: cosines}",
			"dpgan.discriminator.features: cosines is for images only"},
		"a table's picture": {table, smallOptions(), "student: {generator: convolution}",
			"dpgan.student.generator: convolution is for images only"},
		"a warped table": {table, smallOptions(), "student: {warp: 1}", "dpgan.student.warp is for images only"},
		"many cosines": {images, climbOptions(), "discriminator: {features: cosines, cosines: 9}",
			"dpgan.discriminator.cosines: 9 frequencies are more than the pixels of an image's side, 8"},
		"tilted images": {images, climbOptions(), "student: {follow: tilt}",
			"dpgan.student.follow: tilt is for tables only"},
		"standard images": {images, climbOptions(), "discriminator: {features: standard}",
			"dpgan.discriminator.features: standard is for tables only"},
		"images in pieces": {images, climbOptions(), "discriminator: {features: pieces}",
			"dpgan.discriminator.features: pieces is for tables only"},
		"a tilt by reuse": {table, smallOptions(), "discriminator: {reuse: 2}",
			"dpgan.discriminator.reuse: 2 steps on a release"},
		"a tilt by distance": {table, smallOptions(), "discriminator: {loss: wasserstein}",
			"dpgan.student.follow: tilt needs a discriminator whose score is a log-ratio"},
		"a tilt by ratios": {table, smallOptions(), "discriminator: {loss: kl-wgan}",
			"which loss kl-wgan does not give"},
		"a tilt by default": {table, DefaultOptions(), "student: {follow: tilt}",
			"dpgan.student.follow: tilt needs"},
		"a decay too large": {table, DefaultOptions(), "discriminator: {decay: 4}",
			"dpgan.discriminator.decay: 4 is not at least 0 and below 1/step_size"},
		"an infinite decay": {table, DefaultOptions(), "discriminator: {decay: .inf}",
			"dpgan.discriminator.decay: +Inf"},
		"a discriminator": {table, smallOptions(), "discriminator: {layers: 2, hidden: 4096}",
			"dpgan.discriminator: a discriminator of more than 131072 weights"},
		"a convolution's input": {images, imageOptions(), "discriminator: {features: cosines}",
			"dpgan.discriminator: a discriminator of kind convolution sees pixels"},
		"a linear convolution": {images, imageOptions(), "discriminator: {layers: 0}",
			"dpgan.discriminator: a discriminator of kind convolution needs at least one layer"},
		"halved too often": {images, imageOptions(), "discriminator: {layers: 4}",
			"dpgan.discriminator: an image of 8 x 8 cannot be halved 4 times"},
		"a generator": {images, imageOptions(), "student: {generator: convolution, layers: 4}",
			"dpgan.student: a generator of kind convolution with layers 4 cannot make images of 8 x 8"},
		"all at once": {images, climbOptions(),
			"{discriminator: {features: pieces, loss: wasserstein}, student: {follow: tilt}}",
			"dpgan.student.follow: tilt is for tables only; use climb\ndpgan.discriminator.features: pieces is for " +
				"tables only; use plain or cosines\ndpgan.student.follow: tilt needs"},
	} {
		c.o = studenttest.With(t, c.o, c.set)
		err := c.o.ChosenFor(c.e).CheckFor(c.e, 2)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if _, made := New(c.o, c.e, 2, 1); (made != nil) != (err != nil) {
			t.Errorf("%s: made with %v", name, made)
		}
	}
}

// Choosing twice changes nothing, and neither does it change values that are set.
func TestChoicesStay(t *testing.T) {
	table, images := studenttest.Table(t), studenttest.Images(t, 8, 8, 1)
	for name, e := range map[string]*encode.Encoder{"table": table, "images": images} {
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
	if o = o.ChosenFor(studenttest.Table(t)); o.Rate != 0.125 || o.Batch != 0 || o.Units != 0 {
		t.Errorf("25 of 200 are rate %v, batch %d, units %d", o.Rate, o.Batch, o.Units)
	}
}
