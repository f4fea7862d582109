package runfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

func ClassesOf(schema *partition.Schema) int { return max(1, len(schema.Classes())) }

// Problem is the learning problem of the run.
func (s *Spec) Problem(schema *partition.Schema) pipeline.Problem {
	return pipeline.Problem{
		Run: s.Name, Encoder: encode.New(schema), Classes: ClassesOf(schema), Teachers: s.Teachers,
		Records: s.Privacy.Records, Seed: s.Seed,
	}
}

// Training is the training of the spec's pipeline.
func (s *Spec) Training(schema *partition.Schema) pipeline.Training {
	p, _ := pipelines.Named(s.Pipeline)
	return p.New(s.Sections[s.Pipeline], s.Problem(schema))
}

// LoadSchema reads the spec's schema and checks the spec against it.
func (s *Spec) LoadSchema() (*partition.Schema, error) {
	schema, err := partition.LoadSchema(s.Schema)
	if err != nil {
		return nil, err
	}
	if err := schema.CheckUnit(s.Privacy.Unit); err != nil {
		return nil, fmt.Errorf("%s: privacy.unit: %w", s.Path, err)
	}
	if schema.SiteColumn() < 0 {
		if err := s.checkShares(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	if schema.Image != nil {
		if err := s.checkImages(schema); err != nil {
			return nil, err
		}
	}
	return schema, s.CheckStages(schema)
}

// CheckStages refuses stages that the schema does not allow, before anything is spent.
func (s *Spec) CheckStages(schema *partition.Schema) error {
	var errs []error
	for _, stage := range pipelines.Stages {
		if stage.Check == nil {
			continue
		}
		for _, err := range stage.Check(s.Sections[stage.Name], s.Followed(schema)) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Path, err))
		}
	}
	return errors.Join(errs...)
}

// checkImages refuses options that images do not support, before anything is spent.
func (s *Spec) checkImages(schema *partition.Schema) error {
	p, _ := pipelines.Named(s.Pipeline)
	switch {
	case p.TablesOnly:
		with := pipelines.Names(func(p pipeline.Pipeline) bool { return !p.TablesOnly })
		slices.Reverse(with)
		return fmt.Errorf("%s: images are not available with %s; use %s", s.Schema, s.Pipeline, either(with))
	case schema.Image.Channels != 1 && schema.Image.Channels != 3:
		return fmt.Errorf("%s: images of %d channels are not supported; use 1 or 3", s.Schema, schema.Image.Channels)
	case len(s.Evaluate.Models) > 0:
		return fmt.Errorf("%s: evaluate.models: only for tables, because images have one classifier; leave it out",
			s.Path)
	case s.Evaluate.Test != "" && s.Release.Rows < 2:
		return fmt.Errorf("%s: release.rows: %d image cannot be compared with evaluate.test; ask for at least 2",
			s.Path, s.Release.Rows)
	}
	return nil
}
