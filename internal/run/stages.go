package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The stages after training.
const (
	stagePGB = "pgb"
	stageDRS = "drs"
)

// candidates is the number of generated records that are weighted.
func (s *Spec) candidates() int {
	if Section[pgb.StageOptions](s).Candidates > 0 {
		return Section[pgb.StageOptions](s).Candidates
	}
	return min(pipeline.MostCandidates, max(10_000, 5*s.Release.Rows))
}

// boosts and rejects are whether these stages follow the training.
func (s *Spec) boosts() bool  { return slices.Contains(s.Post, stagePGB) }
func (s *Spec) rejects() bool { return slices.Contains(s.Post, stageDRS) }

// kept is how many discriminators the student keeps; ok is false where it has none.
func (s *Spec) kept() (n int, ok bool) {
	if keeper, ok := s.Sections[s.Pipeline].(pipeline.Keeper); ok {
		return keeper.Kept(), true
	}
	return 0, false
}

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
	if len(s.Post) > 0 || s.Weights == iw.Discriminator {
		what := "post: " + strings.Join(s.Post, ", ")
		if len(s.Post) == 0 {
			what = "weights: " + s.Weights
		}
		p, _ := pipelines.Named(s.Pipeline)
		with := pipelines.Names(func(p pipeline.Pipeline) bool { return p.NoDiscriminator == "" })
		need(p.NoDiscriminator == "", "%s: there is no discriminator after %s: %s; use %s, or leave the stage out", what, s.Pipeline, p.NoDiscriminator, either(with))
		kept, keeps := s.kept()
		need(!keeps || kept > 0, "%s: no discriminators are stored: %s.student.keep is 0; use 10", what, s.Pipeline)
	}
	// What a discriminator says of rows has gone into boosting and rejection already; to
	// weight what is left by it would count it twice.
	need(len(s.Post) == 0 || s.Weights != iw.Discriminator, "weights: %s: post: %s has chosen rows by discriminators already, and their weights would count twice; use another method, or leave post out", s.Weights, strings.Join(s.Post, ", "))
	if !Section[pgb.StageOptions](s).Private && s.boosts() {
		need(!s.Release.Private, "pgb.private: false is NOT PRIVATE, and the release is marked private; set release.private: false for a comparison, or leave pgb.private out")
		need(s.Evaluate.Train != "", "pgb.private: false takes the real rows of evaluate.train; name them")
	}
	need(!s.boosts() || s.candidates() >= s.Release.Rows, "pgb.candidates: %d are fewer than release.rows %d, and rows would be there several times; raise it, or use 0 to have it chosen", s.candidates(), s.Release.Rows)
	errs = append(errs, s.validateWeights())
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
	if schema.Image != nil && s.boosts() && !Section[pgb.StageOptions](s).Private {
		refuse("pgb.private: false is for tables, whose real rows it takes; leave it out")
	}
	if s.Weights != iw.None {
		if schema.Image != nil {
			refuse("weights: %s: rows of images are not weighted; use none", s.Weights)
			return errors.Join(errs...)
		}
		if err := schema.AcceptsWeights(); err != nil && Section[iw.Options](s).Use == iw.UseColumn {
			refuse("weights: %s: %w; or set weighting.use: resample", s.Weights, err)
		}
	}
	if s.Weights == iw.PrivateMLP || s.Weights == iw.ExactMLP {
		if n := iw.Parameters(e, classes, Section[iw.Options](s).MLP.Hidden); n > maxNetwork {
			refuse("weighting.mlp.hidden: %d makes a network of %d weights, and %d is the most; lower it", Section[iw.Options](s).MLP.Hidden, n, maxNetwork)
		}
	}
	if scored, ok := s.training(schema).(pipeline.Scored); ok && s.boosts() {
		n := scored.ScoredWeights()
		if keep, _ := s.kept(); 4*n*keep > maxScoredBytes {
			refuse("post: pgb: %d discriminators of %d weights take %d MiB, and %d MiB is the most that is sent; lower "+
				"%s.student.keep", keep, n, 4*n*keep>>20, maxScoredBytes>>20, s.Pipeline)
		}
	}
	return errors.Join(errs...)
}
