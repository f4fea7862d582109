package runfile

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

func ClassesOf(schema *partition.Schema) int { return max(1, len(schema.Classes())) }

// Problem is what the run is to learn.
func (s *Spec) Problem(schema *partition.Schema) pipeline.Problem {
	return pipeline.Problem{
		Run: s.Name, Encoder: encode.New(schema), Classes: ClassesOf(schema), Teachers: s.Teachers, Seed: s.Seed,
	}
}

// Training is that of the spec's pipeline.
func (s *Spec) Training(schema *partition.Schema) pipeline.Training {
	p, _ := pipelines.Named(s.Pipeline)
	return p.New(s.Sections[s.Pipeline], s.Problem(schema))
}
