package runfile

import (
	"cmp"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Privacy is the budget and what it protects.
type Privacy struct {
	Epsilon float64 `yaml:"epsilon"`
	Delta   float64 `yaml:"delta"`
	// Unit: record (default), or the schema's unit column.
	Unit string `yaml:"unit"`
	// Guarantee: data-independent.
	Guarantee string `yaml:"guarantee"`
	// Dataset is what this and all later runs in the folder of a local run may spend
	// together; elsewhere the aggregator's operator sets it. Default: this run's budget, so
	// that nothing is left for stages that are added later.
	Dataset *DatasetBudget `yaml:"dataset"`
}

// DatasetBudget is the budget of a local run's dataset.
type DatasetBudget struct {
	Epsilon float64 `yaml:"epsilon"`
	// Delta. Default: that of the run.
	Delta float64 `yaml:"delta"`
}

// DatasetBudget is the budget of a local run's dataset. One for several runs counts by Rényi
// divergences, which suit samples too: plans are for one run.
func (p Privacy) DatasetBudget(filter privacy.Filter) privacy.Budget {
	b := privacy.Budget{Epsilon: p.Epsilon, Delta: p.Delta, Filter: filter}
	if p.Dataset == nil {
		return b
	}
	return privacy.Budget{Epsilon: p.Dataset.Epsilon, Delta: cmp.Or(p.Dataset.Delta, p.Delta),
		Filter: privacy.FilterRDP}
}
