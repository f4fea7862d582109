package embed_test

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/partition/encode"
)

func TestOptionsThatCannotWork(t *testing.T) {
	e := studenttest.Table(t)
	for _, options := range []func() embed.Options{smallOptions, embed.DefaultOptions} {
		studenttest.RefusesOptions(t, "embed", options, map[string]string{
			"noise": "-1 .nan .inf", "quorum": "0 1.5 .nan", "deadline": "0 86401 .nan",
			"features.count": "-1 1e-7 .nan 2e6", "features.columns": "-2 .nan", "features.pairs": "-0.5 .inf",
			"features.fourier": "1e-7 .nan", "features.bins": "1 -3 1025", "features.pair_bins": "1 1025",
			"features.most_pairs": "-1 131073", "features.waves": "-1 65537", "features.scales": "[0] [.nan] [.inf]",
			"fit.steps": "-1 10000001", "fit.batch": "-1 1048577", "fit.step_size": "-1 .nan 1001",
			"fit.step_end": "1e-13 .nan", "fit.memory": "1 -0.5 .nan", "fit.average": "1 .nan",
			"student.generator": "linear", "student.warp": "11 -0.5 .nan", "student.noise": "-1 4097",
			"features.patches": "-1 .nan 2e6", "features.patch_waves": "1 -2 65537",
			"student.hidden": "-1 4097", "student.layers": "-1 17",
		}, func(o embed.Options) error {
			_, err := embed.New(o, e, 2, 1)
			return err
		}, func(o embed.Options) error {
			_, err := embed.NewStart(o, e, 2, 1, nil, unwatched)
			return err
		})
	}
	o := smallOptions()
	for range 17 {
		o.Features.Scales = append(o.Features.Scales, 1)
	}
	if err := o.Validate(); err == nil ||
		!strings.Contains(err.Error(), "embed.features.scales: 18 of them; the maximum is 16") {
		t.Errorf("too many scales: %v", err)
	}
	// All errors are reported at once.
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

// Unset values are chosen for each kind of data, and work. Choosing again changes nothing, and values that are
// set stay.
func TestOptionsAreChosenForTheData(t *testing.T) {
	for name, v := range variants(t) {
		e := v.e
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
		if images := e.Image() != nil; images && f.Columns+f.Pairs > 0 || f.Patches != 0 {
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

// An error about the data names the field.
func TestOptionsThatDoNotFitTheData(t *testing.T) {
	table, images := studenttest.Table(t), studenttest.Images(t, 8, 8, 1)
	for name, c := range map[string]struct {
		e         *encode.Encoder
		classes   int
		set, want string
	}{
		"columns of images": {images, 2, "features: {columns: 1}", "embed.features: columns and pairs are for tables " +
			"only"},
		"pairs of images": {images, 2, "features: {pairs: 0.1}", "embed.features: columns and pairs are for tables " +
			"only"},
		"a convolution": {table, 2, "student: {generator: convolution}",
			"embed.student.generator: convolution is for images only"},
		"warps of a table": {table, 2, "student: {warp: 1}", "embed.student.warp is for images only"},
		"nothing to match": {table, 2, "features: {columns: 0, pairs: 0, fourier: 0}",
			"embed.features: columns, pairs, fourier and patches are all 0"},
		"nothing of images":        {images, 2, "features: {fourier: 0}", "are all 0"},
		"patches of small images":  {studenttest.Images(t, 4, 8, 1), 2, "features: {patches: 1}", "leave patches out"},
		"patches of a table":       {table, 2, "features: {patches: 1}", "embed.features.patches is for images only"},
		"too many numbers":         {table, 2, "features: {waves: 65536}", "embed.features: embedding: part"},
		"too many for the classes": {table, 1 << 17, "", "embed.features: embedding:"},
		"a convolution that does not fit": {images, 2, "student: {generator: convolution, layers: 5}",
			"embed.student: "},
	} {
		o, e := studenttest.With(t, embed.DefaultOptions(), c.set), c.e
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
	// A table of one column has no pairs, which is valid if other features match.
	o := embed.DefaultOptions()
	e := studenttest.Encoder(t, oneColumnSchema)
	if err := o.ChosenFor(e, 1, 0).CheckFor(e, 1); err != nil {
		t.Error(err)
	}
}

// Patches have fewer waves where classes are many.
func TestPatchesWithLittleRoom(t *testing.T) {
	e := studenttest.Images(t, 28, 28, 1)
	for classes, want := range map[int]int{10: 32, 50: 6, 400: 2} {
		o := embed.DefaultOptions()
		o.Features.Patches = 1
		if o = o.ChosenFor(e, classes, 0); o.Features.PatchWaves != want || o.CheckFor(e, classes) != nil {
			t.Errorf("%d classes: %d waves, %v", classes, o.Features.PatchWaves, o.CheckFor(e, classes))
		}
	}
}
