package embed

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("embed")
	c.Noise(o.Noise)
	c.Rounds(o.Quorum, o.Deadline)
	f := o.Features
	c.Chosen("features.count", f.Count, 0, 1e-6, 1e6)
	for field, weight := range map[string]float64{"columns": f.Columns, "pairs": f.Pairs, "fourier": f.Fourier} {
		c.Check(weight == -1 || weight == 0 || weight >= 1e-6 && weight <= 1e6,
			"features.%s: %v is not between 1e-6 and 1e6, 0 to leave them out, or -1 to have it chosen", field, weight)
	}
	c.Check(f.Patches == 0 || f.Patches >= 1e-6 && f.Patches <= 1e6,
		"features.patches: %v is not between 1e-6 and 1e6, or 0 to leave them out", f.Patches)
	c.Chosen("features.bins", float64(f.Bins), 0, 2, 1024)
	c.Chosen("features.pair_bins", float64(f.PairBins), 0, 2, 1024)
	c.Between("features.most_pairs", float64(f.MostPairs), 0, 1<<17)
	c.Between("features.waves", float64(f.Waves), 0, 1<<16)
	c.Chosen("features.patch_waves", float64(f.PatchWaves), 0, 2, 1<<16)
	for i, s := range f.Scales {
		c.Check(s >= 1e-3 && s <= 1e6, "features.scales[%d]: %v is not between 0.001 and 1e6", i, s)
	}
	c.Check(len(f.Scales) <= 16, "features.scales: %d of them; the maximum is 16", len(f.Scales))
	t := o.Fit
	c.Between("fit.steps", float64(t.Steps), 0, 1e7)
	c.Between("fit.batch", float64(t.Batch), 0, 1<<20)
	c.Chosen("fit.step_size", t.StepSize, 0, 1e-12, 1e3)
	c.Chosen("fit.step_end", t.StepEnd, 0, 1e-12, 1e3)
	c.Decay("fit.memory", t.Memory)
	c.Decay("fit.average", t.Average)
	s := o.Student
	c.OneOf("student.generator", s.Generator, "", "dense", "convolution")
	c.Chosen("student.warp", s.Warp, -1, 0, 10)
	c.Between("student.noise", float64(s.Noise), 0, 4096)
	c.Between("student.hidden", float64(s.Hidden), 0, 4096)
	c.Between("student.layers", float64(s.Layers), 0, 16)
	return c.Err()
}

// CheckFor reports what cannot work for records of an encoder; o has been
// [Options.ChosenFor].
func (o Options) CheckFor(e *encode.Encoder, classes int) error {
	if err := o.Validate(); err != nil {
		return err // a chosen value may conflict with another field
	}
	c := pipeline.NewChecks("embed")
	f, s := o.Features, o.Student
	c.ImagesOnly(e, map[string]bool{
		"student.generator: convolution": s.Generator == "convolution", "student.warp": s.Warp > 0,
		"features.patches": f.Patches > 0,
	})
	c.Check(e.Image() == nil || f.Columns <= 0 && f.Pairs <= 0, "features: columns and pairs are for tables only; set "+
		"both to 0, and fourier above")
	c.Check(f.Columns != 0 || f.Pairs != 0 || f.Fourier != 0 || f.Patches != 0, "features: columns, pairs, fourier "+
		"and patches are all 0, and there is nothing to match; raise one")
	c.Check(o.Fit.Batch >= classes, "fit.batch: %d records for %d classes; use at least one per class", o.Fit.Batch,
		classes)
	if err := c.Err(); err != nil {
		return err
	}
	if _, _, err := o.question(e, classes); err != nil {
		return fmt.Errorf("embed.features: %w (set by waves, patch_waves, most_pairs, pair_bins and bins)", err)
	}
	c.Take("student", o.generator(classes).Check(e))
	return c.Err()
}
