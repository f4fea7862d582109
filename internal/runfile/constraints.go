package runfile

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/partition"
)

// checkConstraints refuses a run whose rows may break constraints of the schema, before anything is
// spent. What stages make of rows is not what the model drew.
func (s *Spec) checkConstraints(schema *partition.Schema) error {
	p, _ := pipelines.Named(s.Pipeline)
	switch {
	case len(schema.Constraints()) == 0:
	case !p.Constraints:
		with := pipelines.Names(func(p pipeline.Pipeline) bool { return p.Constraints })
		return fmt.Errorf("%s: constraints: rows of %s may break them; use %s, or remove them", s.Schema, s.Pipeline,
			either(with))
	case len(s.Post) > 0 || s.Weights != pipeline.NoWeights:
		return fmt.Errorf("%s: post, weights: stages after the training may break constraints of the schema; leave "+
			"them out, or remove the constraints", s.Path)
	}
	return nil
}
