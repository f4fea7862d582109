// Package pipelines lists the pipelines of a run, and everything that may come before and after their training.
package pipelines

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/drs"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/pipeline/quality"
	"github.com/conclave-dp/conclave/internal/pipeline/relabel"
)

// All has every pipeline. A new pipeline is one line here. A separate program may append to it before it does
// anything else.
var All = []pipeline.Pipeline{
	pategan.Pipeline,
	gpate.Pipeline,
	dpgan.Pipeline,
	embed.Pipeline,
	marginals.Pipeline,
}

// Stages has everything that may follow the training. A new stage is one line here.
var Stages = []pipeline.Stage{
	pgb.Stage,
	drs.Stage,
	relabel.Stage,
	iw.Stage,
	quality.Stage,
}

// Default has the pipelines of runs that name none, for tables and for images. After follows that of images, and that
// of tables with very many columns, where the schema allows it.
var Default = struct{ Tables, Images, After string }{"marginals", "embed", relabel.Stage.Name}

// Named returns a pipeline; ok is false for none.
func Named(name string) (p pipeline.Pipeline, ok bool) {
	i := slices.IndexFunc(All, func(p pipeline.Pipeline) bool { return p.Name == name })
	if i < 0 {
		return pipeline.Pipeline{}, false
	}
	return All[i], true
}

// Warm returns the pipelines whose releases can be warm starts of other pipelines' runs.
func Warm() []pipeline.Pipeline {
	return slices.DeleteFunc(slices.Clone(All), func(p pipeline.Pipeline) bool { return p.Warm == nil })
}

// Asks returns the kinds of questions of a pipeline's training, with those of warm starts.
func Asks(p pipeline.Pipeline) []string {
	all := slices.Clone(p.Asks)
	if p.TakesWarm {
		for _, start := range Warm() {
			all = append(all, start.Warm.Kind)
		}
	}
	return all
}

// StageNamed returns an existing stage.
func StageNamed(name string) pipeline.Stage {
	return Stages[slices.IndexFunc(Stages, func(s pipeline.Stage) bool { return s.Name == name })]
}

// Weighting returns the stage that weights rows.
func Weighting() pipeline.Stage {
	return Stages[slices.IndexFunc(Stages, func(s pipeline.Stage) bool { return s.Weigh != nil })]
}

// LoadModel reads a model folder, of any kind that a pipeline has.
func LoadModel(dir string) (pipeline.Model, error) {
	var kinds []pipeline.ModelKind
	for _, p := range All {
		if !slices.ContainsFunc(kinds, func(k pipeline.ModelKind) bool { return k.Name == p.Model.Name }) {
			kinds = append(kinds, p.Model)
		}
	}
	return pipeline.LoadModel(dir, kinds...)
}

// Names returns the names of the pipelines that fulfil a condition; nil means all.
func Names(of func(pipeline.Pipeline) bool) (names []string) {
	for _, p := range All {
		if of == nil || of(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Sections returns the sections of a run.yaml with their defaults, by name.
func Sections() map[string]pipeline.Options {
	sections := map[string]pipeline.Options{}
	for _, p := range All {
		sections[p.Name] = p.Options()
		if p.Warm != nil && p.Warm.Options != nil {
			sections[p.Warm.Section] = p.Warm.Options()
		}
	}
	for _, s := range Stages {
		sections[s.Name] = s.Options()
	}
	return sections
}

// StageQuestions returns the questions of all stages, in the order of reports.
func StageQuestions() (all []pipeline.StageQuestion) {
	for _, s := range Stages {
		all = append(all, s.Asks...)
	}
	return all
}
