// Package kinds lists the kinds of questions that a node of this program answers.
package kinds

import (
	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/teachers"
)

// All has every kind. A new kind is one line here.
var All = question.NewRegistry(
	classcounts.Kind,
	discriminator.GradientSum,
	embedding.Sum,
	logistic.Sum,
	pgb.ScoreSum,
	teachers.Votes,
	teachers.GradientVotes,
	teachers.GradientSum,
)
