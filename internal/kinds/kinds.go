// Package kinds has the kinds of questions that a node of this program answers, and what makes
// the answers of those that take several passes, at aggregators. They come with the pipelines
// and stages of package pipelines, which lists them.
package kinds

import (
	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/reducer"
)

// All returns every kind.
func All() question.Registry {
	all := []question.Kind{classcounts.Kind} // which most runs begin with
	for _, p := range pipelines.All {
		all = append(all, p.Kinds...)
	}
	for _, s := range pipelines.Stages {
		all = append(all, s.Kinds...)
	}
	return question.NewRegistry(all...)
}

// Reducers returns every reducer.
func Reducers() reducer.Registry {
	var all []reducer.Reducer
	for _, s := range pipelines.Stages {
		all = append(all, s.Reducers...)
	}
	return reducer.NewRegistry(all...)
}
