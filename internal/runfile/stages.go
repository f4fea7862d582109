package runfile

import (
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/partition"
)

// Followed is what the stages know about the run; it includes the problem only if the schema is known.
func (s *Spec) Followed(schema *partition.Schema) pipeline.Followed {
	f := pipeline.Followed{
		Schema: schema, Post: s.Post, Weights: s.Weights, Rows: s.Release.Rows,
		Private: s.Release.Private, Real: s.Evaluate.Train != "", Pipeline: s.Pipeline,
		Masked: s.Aggregation.Masked,
	}
	f.Kept, _ = s.Kept()
	if schema == nil {
		return f
	}
	f.Problem = s.Problem(schema)
	if scored, ok := s.Training(schema).(pipeline.Scored); ok {
		f.ScoredWeights = scored.ScoredWeights()
	}
	return f
}

// needsRule is a training that tells whether its rows of a table know less about the label than a rule that is learned
// for it.
type needsRule interface {
	NeedsRule(budget privacy.Budget) bool
}

// choosePost adds the default stage of images, and of tables with many columns, that have no list of stages, where
// schema and study allow it. Options that cannot work are left to [Spec.Validate].
func (s *Spec) choosePost(schema *partition.Schema) {
	name := pipelines.Default.After
	if schema.Image == nil {
		if s.Sections[s.Pipeline].Validate() != nil {
			return
		}
		if t, ok := s.Training(schema).(needsRule); !ok || !t.NeedsRule(s.Privacy.Budget("")) {
			return
		}
	}
	if s.Post != nil || s.Agreed != nil && !slices.Contains(s.Agreed.Study.Stages, name) {
		return
	}
	post, options := []string{name}, s.Sections[name]
	if options.Validate() != nil ||
		len(pipelines.StageNamed(name).Check(options, pipeline.Followed{Schema: schema, Post: post})) == 0 {
		s.Post, s.PostChosen = post, true
	}
}

// Kept is the number of discriminators that the student stores; ok is false if the pipeline has none.
func (s *Spec) Kept() (n int, ok bool) {
	if keeper, ok := s.Sections[s.Pipeline].(pipeline.Keeper); ok {
		return keeper.Kept(), true
	}
	return 0, false
}

// NeedsDiscriminators tells whether a stage needs the discriminators that the student stores.
func (s *Spec) NeedsDiscriminators() bool {
	return slices.ContainsFunc(pipelines.Stages, func(stage pipeline.Stage) bool {
		return stage.Discriminators != nil && stage.Discriminators(s.Followed(nil))
	})
}

// validateStages reports invalid stages after training.
func (s *Spec) validateStages() []error {
	var errs config.Problems
	need := errs.Need
	place, names := map[string]int{}, []string{}
	for i, stage := range pipelines.Stages {
		if stage.Apply != nil {
			place[stage.Name], names = i, append(names, stage.Name)
		}
	}
	for i, name := range s.Post {
		at, ok := place[name]
		need(ok, "post[%d]: %q is not a stage; use %s", i, name, either(names))
		need(!slices.Contains(s.Post[:i], name), "post[%d]: %q appears twice", i, name)
		if before, known := place[s.Post[max(0, i-1)]]; ok && known && before > at {
			need(false, "post: %s; %s comes first, %s", strings.Join(s.Post, ", "), name,
				pipelines.Stages[before].Follows)
		}
	}
	if s.NeedsDiscriminators() {
		what := "post: " + strings.Join(s.Post, ", ")
		if len(s.Post) == 0 {
			what = "weights: " + s.Weights
		}
		p, _ := pipelines.Named(s.Pipeline)
		with := pipelines.Names(func(p pipeline.Pipeline) bool { return p.NoDiscriminator == "" })
		need(p.NoDiscriminator == "", "%s: there is no discriminator after %s: %s; use %s, or leave out the stage",
			what, s.Pipeline, p.NoDiscriminator, either(with))
		kept, keeps := s.Kept()
		need(!keeps || kept > 0, "%s: no discriminators are stored: %s.student.keep is 0; use 10", what, s.Pipeline)
	}
	for _, stage := range pipelines.Stages {
		if stage.Validate != nil {
			errs = append(errs, stage.Validate(s.Sections[stage.Name], s.Followed(nil))...)
		}
	}
	return errs
}
