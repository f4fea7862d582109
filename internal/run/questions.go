package run

import (
	"errors"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Question is one kind of question that a run asks a node.
type Question struct {
	// Answer describes the node's answer: its name and content in words, how often, and the largest size in bytes.
	Answer Message
	// Round is the largest of its kind, without records. For stages it has the kind only, and Complete is false.
	Round    *conclavev1.Round
	Complete bool
	// Stage is the stage of the run that asks it, empty for the training.
	Stage string
	// Charges is the most that one question costs, and Charged how often: a fit asks many times and is charged once.
	Charges []privacy.Event
	Charged int
}

// Questions returns what a run of the spec would ask a node, in order, and its spec at the aggregator. It reads no
// data.
func Questions(s *runfile.Spec, schema *partition.Schema, node Node) (*conclavev1.RunSpec, []Question, error) {
	p, err := NewPlan(s, schema)
	if err != nil {
		return nil, nil, err
	}
	f, err := forecastOf(p, s, schema, node)
	if err != nil {
		return nil, nil, err
	}
	var questions []Question
	if len(p.First()) > 0 {
		first := Question{
			Complete: true, Charges: p.First().Events(), Charged: 1,
			Round: pipeline.CountRound(p.Classes),
		}
		if p.Start != nil {
			first.Round = largestStart(s, schema, p).Round
		}
		first.Round.Run = s.Name
		questions = append(questions, first)
	}
	if p.Rounds > 0 {
		one := p.Training.Worst(p.Releases(min(p.PerRound, p.Queries)))
		questions = append(questions, Question{
			Complete: true, Charges: one, Charged: p.Rounds, Round: s.Training(schema).Largest(p, node.Teachers).Round,
		})
	}
	questions = append(questions, stageQuestions(p, s.Name)...)
	// Hello and permit come first, and a refusal comes last.
	answers := f.Leaving[2 : len(f.Leaving)-1]
	if len(answers) != len(questions) {
		return nil, nil, errors.New("the forecast of the run does not match its questions")
	}
	for i := range questions {
		questions[i].Answer = answers[i]
	}
	return RunSpec(p, s, schema, node.Dataset, false), questions, nil
}

// stageQuestions are the questions after training, in the order of the forecast. All selections by one sum of scores
// are charged when the sum is asked.
func stageQuestions(p *plan.Plan, run string) (questions []Question) {
	for _, planned := range p.Stages {
		q := Question{
			Round: &conclavev1.Round{Run: run, Kind: planned.Kind}, Stage: planned.Stage,
			Charges: planned.Worst(1), Charged: int(planned.Count),
		}
		if planned.Mechanism.Kind == privacy.Exponential {
			q.Charges, q.Charged = planned.Worst(planned.Count), 1
		}
		questions = append(questions, q)
	}
	return questions
}
