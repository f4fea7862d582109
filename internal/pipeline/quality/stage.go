package quality

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

const name = "quality"

// Stage registers the figure.
var Stage = pipeline.Stage{
	Name: name, Options: pipeline.Defaults(func() Options { return Options{} }),
	Asks:  []pipeline.StageQuestion{{Stage: name, Kind: marginals.CountingKind, Says: says}},
	Check: check, Share: share, Price: price, Messages: messages, Measure: measure,
}

// Options are the section `quality:` of a run.yaml. The stage adds a figure of how far the rows are from the real
// ones, which may be given away; see docs/quality.md. It works for tables, after any pipeline, `post` and `weights`.
type Options struct {
	// Budget is the part of epsilon that the figure may cost by itself. More makes it truer and leaves less for the
	// training: at epsilon 1 the training has 0.2% more noise with 0.05, and 2.7% with 0.2. For a few thousand records
	// 0.05 says little. With 0 there is no figure, and nothing is asked.
	Budget float64 `yaml:"budget"`
}

// Validate reports what cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks(name)
	c.Check(o.Budget >= 0 && o.Budget < 1, "budget: %v is not a share of the budget, above 0 and below 1, or 0 for no "+
		"figure", o.Budget)
	return c.Err()
}

func says(_ int, numbers int64) string {
	return fmt.Sprintf("After the training, %s of records in cells of columns were released with noise, for the "+
		"quality figure.", text.Several(numbers, "count"))
}

// parts is the number of equal parts of a number's public range.
const parts = 20

func budgetOf(o pipeline.Options) float64 { return o.(*Options).Budget }

// check reports what the schema does not allow.
func check(o pipeline.Options, f pipeline.Followed) []error {
	if budgetOf(o) > 0 && f.Schema.Image != nil {
		return []error{errors.New("quality.budget: the quality figure is for tables, not for images; leave it out")}
	}
	return nil
}

func share(o pipeline.Options, _ pipeline.Followed) plan.Share {
	return plan.Share{Field: "quality.budget", Value: budgetOf(o)}
}

// price plans the one sum.
func price(o pipeline.Options, f pipeline.Followed, budget privacy.Budget) (plan.Stages, error) {
	share := share(o, f)
	if share.Value == 0 || f.Schema.Image != nil {
		return nil, nil // check refuses images
	}
	sigma, err := privacy.GaussianSigma(share.Alone(budget), 1, nil)
	if err == nil {
		_, err = marginals.NewCounting(f.Schema, parts, sigma)
	}
	if err != nil {
		return nil, fmt.Errorf("%s for the quality figure: %w", share.Of(budget), err)
	}
	return plan.Stages{{
		Kind: marginals.CountingKind, Stage: name, Count: 1,
		Mechanism: budget.Event(privacy.Event{Kind: privacy.Gaussian, Sigma: sigma}),
	}}, nil
}

// messages are the messages of the sum.
func messages(_ pipeline.Options, f pipeline.Followed, p plan.Stages) []pipeline.StageMessages {
	planned, ok := p.Of(name)
	if !ok {
		return nil
	}
	counting, err := marginals.NewCounting(f.Schema, parts, planned.Mechanism.Sigma)
	if err != nil {
		return nil // planning has built the same question
	}
	return []pipeline.StageMessages{{
		AnswerName: "counts for quality", Times: 1, Numbers: counting.Entries(),
		Largest: partition.MostStreamed * counting.Bound(),
		AnswerContent: fmt.Sprintf("%d numbers: the number of records in each cell of every column, alone and with "+
			"the label; the aggregator sees them, and releases only their noisy sum over all sites",
			counting.Entries()),
		Asked: "cells for quality", AskedContent: "the cells of the columns; they follow from the schema",
	}}
}
