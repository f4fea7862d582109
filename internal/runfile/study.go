package runfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/partition"
)

// Agreed is the study of a run.
type Agreed struct {
	Study *study.Study
	// Block is the part of the study that the run states.
	Block *study.Block
	// Text is the text of the study.yaml, byte for byte.
	Text []byte
}

// TakeStudy makes the study in a text the run's study. A run without a purpose then has the study's.
func (s *Spec) TakeStudy(text []byte) error {
	of, err := study.Parse(text)
	if err != nil {
		return fmt.Errorf("study: %w", err)
	}
	block, err := of.Block(text)
	if err != nil {
		return fmt.Errorf("study: %w", err)
	}
	s.Agreed = &Agreed{of, block, text}
	if s.Purpose == "" {
		s.Purpose = of.Purpose
	}
	return nil
}

// readStudy reads the study.yaml that the spec names, if it names one.
func (s *Spec) readStudy() error {
	if s.Study == "" {
		return nil
	}
	_, text, err := study.Read(s.Study)
	if err != nil {
		return fmt.Errorf("study: %w; correct the path, or the document", err)
	}
	return s.TakeStudy(text)
}

// StudyBlock is the part of its study that the run states, nil without a study.
func (s *Spec) StudyBlock() *study.Block {
	if s.Agreed == nil {
		return nil
	}
	return s.Agreed.Block
}

// validateStudy reports what the study does not allow, as far as the spec shows. The aggregator checks whether
// the study has ended: a run that was open before must be able to finish.
func (s *Spec) validateStudy() (errs config.Problems) {
	if s.Agreed == nil {
		return nil
	}
	need, of, named := errs.Need, s.Agreed.Study, s.Agreed.Block
	need(slices.Contains(of.Pipelines, s.Pipeline), "pipeline: %s allows %s, not %q", named, either(of.Pipelines),
		s.Pipeline)
	need(s.Privacy.Unit == of.Unit, "privacy.unit: %s protects %q, but the run %q", named, of.Unit, s.Privacy.Unit)
	need(s.Privacy.Epsilon <= of.Budget.Epsilon && s.Privacy.Delta <= of.Budget.Delta,
		"privacy: (%v, %v) exceeds the budget of %s, which is (%v, %v) for all its runs", s.Privacy.Epsilon,
		s.Privacy.Delta, named, of.Budget.Epsilon, of.Budget.Delta)
	need(s.Aggregation.Masked || !of.Masked, "aggregation.masked: runs of %s are masked; set it to true", named)
	for _, m := range s.Aggregation.Members {
		need(slices.Contains(of.Sites, m.Site), "aggregation.members: %q is not a site of %s; its sites are %s", m.Site,
			named, strings.Join(of.Sites, ", "))
	}
	return errs
}

// CheckStudy checks the study against the stages that a run's plan pays for, and against the run's schema if
// the schema is beside the study's document.
func (s *Spec) CheckStudy(schema *partition.Schema, stages []string) error {
	if s.Agreed == nil {
		return nil
	}
	var errs config.Problems
	for _, stage := range stages {
		errs.Need(slices.Contains(s.Agreed.Study.Stages, stage), "%s: %s does not allow stage %q; leave it out of "+
			"the run", s.Path, s.Agreed.Block, stage)
	}
	path := config.Resolve(s.Study, s.Agreed.Study.Schema)
	if of, err := partition.LoadSchema(path); err == nil { // otherwise aggregator and sites compare hashes
		errs.Need(of.SHA256 == schema.SHA256, "%s: schema: it is not the schema of %s, which is %s; use that "+
			"schema", s.Path,
			s.Agreed.Block, path)
	}
	return errors.Join(errs...)
}

// CheckDataset refuses a run on another dataset than its study's. The datasets of local runs have their own
// names.
func (s *Spec) CheckDataset(dataset string) error {
	if s.Agreed == nil || len(s.Data) > 0 || dataset == s.Agreed.Study.Dataset {
		return nil
	}
	return fmt.Errorf("%s: %s is for dataset %q, but the run is for %q; use the configuration of the study's dataset",
		s.Path, s.Agreed.Block, s.Agreed.Study.Dataset, dataset)
}

// CheckStudyGoesOn refuses a new run of a study that has ended by this machine's clock.
func (s *Spec) CheckStudyGoesOn() error {
	if s.Agreed == nil || !s.Agreed.Block.Ended(time.Now()) {
		return nil
	}
	return fmt.Errorf("%s: %w: %s was the last day of %s; ask its operator for a new study", s.Path, study.ErrEnded,
		s.Agreed.Block.Expires, s.Agreed.Block)
}
