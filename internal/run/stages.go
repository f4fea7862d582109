package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The stages after training.
const (
	stagePGB = "pgb"
	stageDRS = "drs"
)

// PGB are the options of private post-GAN boosting.
type PGB struct {
	pgb.Options `yaml:",inline"`
	// Share is the part of the run's epsilon that all selections may cost by themselves;
	// the rest of the run has what they leave by the joint account, which is more than the
	// rest of epsilon. Default: 0.2, as in the experiments of the paper's authors.
	Share float64 `yaml:"share"`
	// Candidates is the number of generated records that are weighted, drawn alike from all
	// kept generators. Default: 0, chosen: five times release.rows, 10000 at least.
	Candidates int `yaml:"candidates"`
	// Records is the public number of privacy units. Default: 0, that of the class counts,
	// which were paid for.
	Records int `yaml:"records"`
	// Complements adds the opposite of every discriminator, for nothing: the records then
	// come to score as real ones do, and not higher. Without them, as in the paper, records
	// that all discriminators call real end up with all the weight. Default: true.
	Complements bool `yaml:"complements"`
	// Private: without it the best discriminator is always taken, by the real rows of
	// evaluate.train. That is NOT PRIVATE, for comparison, and wants release.private:
	// false. Default: true.
	Private bool `yaml:"private"`
}

// DefaultPGB returns the defaults named at each field.
func DefaultPGB() PGB {
	return PGB{Options: pgb.DefaultOptions(), Share: 0.2, Complements: true, Private: true}
}

// Validate reports every option that cannot work.
func (o PGB) Validate() error {
	errs := []error{o.Options.Validate()}
	if !(o.Share > 0 && o.Share < 1) {
		errs = append(errs, fmt.Errorf("pgb.share: %v is not a share of the budget, above 0 and below 1", o.Share))
	}
	if o.Candidates < 0 || o.Candidates > maxCandidates {
		errs = append(errs, fmt.Errorf("pgb.candidates: %d is not between 0 (chosen) and %d", o.Candidates, maxCandidates))
	}
	if o.Records < 0 || o.Records > maxRecords {
		errs = append(errs, fmt.Errorf("pgb.records: %d is not between 0 (of the class counts) and %d", o.Records, maxRecords))
	}
	return errors.Join(errs...)
}

const (
	// maxCandidates bounds what is held in memory with a score by each discriminator.
	maxCandidates = 2_000_000
	// maxRecords is more than aggregators add up.
	maxRecords = 1 << 24
)

// candidates is the number of generated records that are weighted.
func (s *Spec) candidates() int {
	if s.PGB.Candidates > 0 {
		return s.PGB.Candidates
	}
	return min(maxCandidates, max(10_000, 5*s.Release.Rows))
}

// boosts and rejects are whether these stages follow the training.
func (s *Spec) boosts() bool  { return slices.Contains(s.Post, stagePGB) }
func (s *Spec) rejects() bool { return slices.Contains(s.Post, stageDRS) }

// validateStages reports what the stages after training cannot be.
func (s *Spec) validateStages() (errs []error) {
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for i, stage := range s.Post {
		need(stage == stagePGB || stage == stageDRS, "post[%d]: %q is not a stage; use pgb or drs", i, stage)
		need(!slices.Contains(s.Post[:i], stage), "post[%d]: %q is there twice", i, stage)
	}
	need(len(s.Post) != 2 || s.Post[0] == stagePGB, "post: %s; pgb comes first, drs rejects what it weighted", strings.Join(s.Post, ", "))
	if len(s.Post) > 0 || s.Weights == weightsDiscriminator {
		what := "post: " + strings.Join(s.Post, ", ")
		if len(s.Post) == 0 {
			what = "weights: " + s.Weights
		}
		switch s.Pipeline {
		case "gpate":
			need(false, "%s: there is no discriminator after gpate: its student learns from gradients and has none; use pategan or dpgan, or leave the stage out", what)
		case "embed":
			need(false, "%s: there is no discriminator after embed: its generator is matched to a sum; use pategan or dpgan, or leave the stage out", what)
		case "pategan":
			need(s.PATEGAN.Student.Keep > 0, "%s: no discriminators are stored: pategan.student.keep is 0; use 10", what)
		case "dpgan":
			need(s.DPGAN.Student.Keep > 0, "%s: no discriminators are stored: dpgan.student.keep is 0; use 10", what)
		}
	}
	// What a discriminator says of rows has gone into boosting and rejection already; to
	// weight what is left by it would count it twice.
	need(len(s.Post) == 0 || s.Weights != weightsDiscriminator, "weights: %s: post: %s has chosen rows by discriminators already, and their weights would count twice; use another method, or leave post out", s.Weights, strings.Join(s.Post, ", "))
	if !s.PGB.Private && s.boosts() {
		need(!s.Release.Private, "pgb.private: false is NOT PRIVATE, and the release is marked private; set release.private: false for a comparison, or leave pgb.private out")
		need(s.Evaluate.Train != "", "pgb.private: false takes the real rows of evaluate.train; name them")
	}
	need(!s.boosts() || s.candidates() >= s.Release.Rows, "pgb.candidates: %d are fewer than release.rows %d, and rows would be there several times; raise it, or use 0 to have it chosen", s.candidates(), s.Release.Rows)
	errs = append(errs, s.PGB.Validate(), s.DRS.Validate(), s.validateWeights())
	return errs
}

// The largest that aggregators take.
const (
	maxNetwork     = 1 << 17
	maxScoredBytes = 60 << 20
)

// checkStages refuses stages that the schema does not allow, before anything is spent.
func (s *Spec) checkStages(schema *partition.Schema) error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{s.Path}, args...)...))
	}
	e, classes := encode.New(schema), classesOf(schema)
	if schema.Image != nil && s.boosts() && !s.PGB.Private {
		refuse("pgb.private: false is for tables, whose real rows it takes; leave it out")
	}
	if s.Weights != weightsNone {
		if schema.Image != nil {
			refuse("weights: %s: rows of images are not weighted; use none", s.Weights)
			return errors.Join(errs...)
		}
		if err := schema.AcceptsWeights(); err != nil && s.Weighting.Use == useColumn {
			refuse("weights: %s: %w; or set weighting.use: resample", s.Weights, err)
		}
	}
	if s.Weights == weightsMLP || s.Weights == weightsExactMLP {
		if n := iw.Parameters(e, classes, s.Weighting.MLP.Hidden); n > maxNetwork {
			refuse("weighting.mlp.hidden: %d makes a network of %d weights, and %d is the most; lower it", s.Weighting.MLP.Hidden, n, maxNetwork)
		}
	}
	if s.boosts() && s.Pipeline == "dpgan" {
		n, keep := s.DPGAN.ChosenFor(e).Spec(e, classes).Parameters(), s.DPGAN.Student.Keep
		if 4*n*keep > maxScoredBytes {
			refuse("post: pgb: %d discriminators of %d weights take %d MiB, and %d MiB is the most that is sent; lower dpgan.student.keep", keep, n, 4*n*keep>>20, maxScoredBytes>>20)
		}
	}
	return errors.Join(errs...)
}
