package runfile

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/partition"
)

// checkImages refuses what cannot be had of images, before anything is spent.
func (s *Spec) checkImages(schema *partition.Schema) error {
	p, _ := pipelines.Named(s.Pipeline)
	switch {
	case p.TablesOnly:
		with := pipelines.Names(func(p pipeline.Pipeline) bool { return !p.TablesOnly })
		slices.Reverse(with)
		return fmt.Errorf("%s: images are not available with %s; use %s", s.Schema, s.Pipeline, either(with))
	case schema.Image.Channels != 1 && schema.Image.Channels != 3:
		return fmt.Errorf("%s: images of %d channels cannot be shown; use 1 or 3", s.Schema, schema.Image.Channels)
	case len(s.Evaluate.Models) > 0:
		return fmt.Errorf("%s: evaluate.models: these are for tables, and images have one classifier; leave it out",
			s.Path)
	case s.Evaluate.Test != "" && s.Release.Rows < 2:
		return fmt.Errorf("%s: release.rows: %d image cannot be compared with evaluate.test; ask for at least 2",
			s.Path, s.Release.Rows)
	}
	return nil
}
