package embed

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("embed")
	c.Check(o.Noise >= 0 && !math.IsInf(o.Noise, 0), "noise: %v is not 0 (chosen) or above", o.Noise)
	c.Check(o.Quorum > 0 && o.Quorum <= 1, "quorum: %v is not a share of the teachers, above 0 and at most 1", o.Quorum)
	c.Between("deadline", o.Deadline, 1e-3, 24*3600)
	f := o.Features
	c.Check(f.Count == 0 || f.Count >= 1e-6 && f.Count <= 1e6,
		"features.count: %v is not between 1e-6 and 1e6, or 0 to have it chosen", f.Count)
	for field, weight := range map[string]float64{"columns": f.Columns, "pairs": f.Pairs, "fourier": f.Fourier} {
		c.Check(weight == -1 || weight == 0 || weight >= 1e-6 && weight <= 1e6,
			"features.%s: %v is not between 1e-6 and 1e6, 0 to leave them out, or -1 to have it chosen", field, weight)
	}
	c.Check(f.Bins == 0 || f.Bins >= 2 && f.Bins <= 1024,
		"features.bins: %d is not between 2 and 1024, or 0 to have it chosen", f.Bins)
	c.Check(f.PairBins == 0 || f.PairBins >= 2 && f.PairBins <= 1024,
		"features.pair_bins: %d is not between 2 and 1024, or 0 to have it chosen", f.PairBins)
	c.Between("features.most_pairs", float64(f.MostPairs), 0, 1<<17)
	c.Between("features.waves", float64(f.Waves), 0, 1<<16)
	for i, s := range f.Scales {
		c.Check(s >= 1e-3 && s <= 1e6, "features.scales[%d]: %v is not between 0.001 and 1e6", i, s)
	}
	c.Check(len(f.Scales) <= 16, "features.scales: %d of them, and 16 is the most", len(f.Scales))
	t := o.Fit
	c.Between("fit.steps", float64(t.Steps), 0, 1e7)
	c.Between("fit.batch", float64(t.Batch), 0, 1<<20)
	c.Check(t.StepSize == 0 || t.StepSize >= 1e-12 && t.StepSize <= 1e3,
		"fit.step_size: %v is not between 1e-12 and 1000, or 0 to have it chosen", t.StepSize)
	c.Check(t.StepEnd == 0 || t.StepEnd >= 1e-12 && t.StepEnd <= 1e3,
		"fit.step_end: %v is not between 1e-12 and 1000, or 0 to have it chosen", t.StepEnd)
	c.Check(t.Memory == -1 || t.Memory >= 0 && t.Memory < 1,
		"fit.memory: %v is not at least 0 and below 1, or -1 to have it chosen", t.Memory)
	c.Check(t.Average == -1 || t.Average >= 0 && t.Average < 1,
		"fit.average: %v is not at least 0 and below 1, or -1 to have it chosen", t.Average)
	s := o.Student
	c.OneOf("student.generator", s.Generator, "", "dense", "convolution")
	c.Check(s.Warp == -1 || s.Warp >= 0 && s.Warp <= 10,
		"student.warp: %v is not between 0 and 10, or -1 to have it chosen", s.Warp)
	c.Between("student.noise", float64(s.Noise), 0, 4096)
	c.Between("student.hidden", float64(s.Hidden), 0, 4096)
	c.Between("student.layers", float64(s.Layers), 0, 16)
	return c.Err()
}

// CheckFor reports what cannot work for records of an encoder; o has been
// [Options.ChosenFor].
func (o Options) CheckFor(e *encode.Encoder, classes int) error {
	if err := o.Validate(); err != nil {
		return err // what was chosen for one field may not go with another
	}
	images := e.Image() != nil
	f, s := o.Features, o.Student
	var errs []error
	if images && (f.Columns > 0 || f.Pairs > 0) {
		errs = append(errs, errors.New("embed.features: columns and pairs are for tables only; set both to 0, and "+
			"fourier above"))
	}
	if !images && (s.Generator == "convolution" || s.Warp > 0) {
		errs = append(errs, errors.New("embed.student: generator: convolution and warp are for images only; use "+
			"dense without warp"))
	}
	if f.Columns == 0 && f.Pairs == 0 && f.Fourier == 0 {
		errs = append(errs, errors.New("embed.features: columns, pairs and fourier are all 0, so that nothing is "+
			"left to match; raise one"))
	}
	if o.Fit.Batch < classes {
		errs = append(errs, fmt.Errorf("embed.fit.batch: %d records for %d classes; use one of each at least",
			o.Fit.Batch, classes))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if _, _, err := o.question(e, classes); err != nil {
		return fmt.Errorf("embed.features: %w (waves, most_pairs, pair_bins and bins say how many)", err)
	}
	if err := o.generator(classes).Check(e); err != nil {
		return fmt.Errorf("embed.student: %w", err)
	}
	return nil
}
