package marginals

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/partition"
)

// Student returns a student that has asked nothing.
func (t *training) Student(p *plan.Plan) (pipeline.Student, error) {
	s := &student{t: t, first: p.Start.Planned.Mechanism, second: p.Training.Mechanism,
		noise: [2]float64{p.Start.Noise(), p.Released()}}
	var err error
	s.questions[0], err = t.columnsQuestion(s.first.Sigma)
	return s, err
}

// student has the releases. Everything else except the chosen pairs follows from them, and is computed again
// after a restart.
type student struct {
	t             *training
	first, second privacy.Event // the prices of the first sum and of each other sum
	noise         [2]float64    // the multipliers of the released noise
	questions     [3]*asked     // nil until their columns and pairs are known
	state
	sums  [3][]float32 // the released sums; nil before the release
	model *model
}

// state is the checkpoint without the releases.
type state struct {
	Identity string `json:"identity"`
	pipeline.Learned
	Sums int `json:"sums"`
	// Chosen are the pairs of the third question, as indexes of columns; nil until it is asked.
	Chosen [][2]int `json:"chosen"`
}

// Learn asks for the sums that the checkpoint does not have, and fits the model.
func (s *student) Learn(
	ctx context.Context, ask pipeline.Asker, rounds int, keep func() error, progress func(pipeline.Progress),
) error {
	if err := s.ask(ctx, ask, 0, columnsKind, keep); err != nil {
		return err
	}
	fine := s.fineColumns()
	s.count(fine)
	g := s.grid(fine)
	for number := 1; number <= min(rounds, 2); number++ {
		if number == 2 && s.Chosen == nil && g.signs == nil {
			if err := s.choose(ctx, fine, g); err != nil {
				return err
			}
		}
		if err := s.question(g, number); err != nil {
			return err
		}
		if err := s.ask(ctx, ask, number, pairsKind, keep); err != nil {
			return err
		}
		entries := s.questions[number].entries
		progress(pipeline.Progress{Round: number, Rounds: 2, EpsilonSpent: s.Spent, Answered: entries,
			Queries: entries})
	}
	fitted, _, err := s.released(fine, g).fit(ctx)
	if err != nil {
		return err
	}
	s.model = newModel(s.t.schema(), fine, g.columns, g.of, fitted, s.ties(g, sumOf(fine[0].records), fitted))
	return keep()
}

// ask asks for a sum, unless it was already released.
func (s *student) ask(
	ctx context.Context, ask pipeline.Asker, number int, kind string, keep func() error,
) error {
	if s.sums[number] != nil {
		return nil
	}
	question := s.questions[number]
	question.baseline = ask.Baseline()
	r := question.round(kind)
	r.Number = uint64(number)
	release, err := ask.Ask(ctx, "", r)
	if err != nil {
		return err
	}
	values := release.GetSum().GetValues()
	if len(values) != question.entries {
		return fmt.Errorf("a release of %d numbers for %d cells; install matching versions of student and aggregator",
			len(values), question.entries)
	}
	sum := make([]float32, len(values))
	for i, v := range values {
		sum[i] = float32(v)
	}
	s.sums[number], s.Sums = sum, number+1
	s.Took(pipeline.PaidBy(release))
	return keep()
}

// fineColumns returns the columns that follow from the first release.
func (s *student) fineColumns() []fineColumn {
	var fine []fineColumn
	asked := s.questions[0]
	for i, t := range asked.tables {
		c, counts := asked.columns[i], t.counts(s.sums[0])
		if i < len(learnedColumns(s.t.schema())) {
			fine = append(fine, fineColumn{c, counts, t.variance(asked.bound, s.noise[0]), blockOf(&c)})
			continue
		}
		for j := range fine {
			if fine[j].column == c.column {
				fine[j].withBlocks(counts)
			}
		}
	}
	records := total(fine)
	for i := range fine {
		fine[i].smooth()
		fine[i].records = nearest(fine[i].records, records)
	}
	return fine
}

// count stores the number of records of each class, from the first release.
func (s *student) count(fine []fineColumn) {
	if s.Counts != nil {
		return
	}
	s.Counts = []float64{sumOf(fine[0].records)}
	if at := s.t.labelPlace(); at >= 0 && s.t.Classes > 1 {
		s.Counts = fine[at].records[:s.t.Classes]
		s.CountScale = math.Sqrt(fine[at].variance)
	}
}

func sumOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

func (s *student) Rounds() int { return max(0, s.Sums-1) }

// Model returns the model from which rows are drawn.
func (s *student) Model(*partition.Schema) (pipeline.Model, error) {
	if s.model == nil {
		return nil, errors.New("the student has learned nothing yet")
	}
	return s.model, nil
}

func (s *student) Save(path, identity string) error {
	s.Identity = identity
	set := safetensors.New()
	for i := range s.Sums {
		set.Add("", tensorOf(fmt.Sprintf("sum%d", i), s.sums[i]))
	}
	return pipeline.SaveCheckpoint(path, "marginals", s.state, set)
}

func (s *student) Restore(path, identity string) (bool, error) {
	var saved state
	set, err := pipeline.LoadCheckpoint(path, "marginals", pipeline.AskAnew, &saved)
	if set == nil || err != nil {
		return false, err
	}
	if saved.Identity != identity || saved.Sums < 0 || saved.Sums > len(s.sums) || !s.t.arePairs(saved.Chosen) {
		return false, pipeline.Misfit(path, errors.New("it is of another run; use another output folder"))
	}
	restored := student{t: s.t, first: s.first, second: s.second, noise: s.noise, questions: s.questions, state: saved}
	var g grid
	for i := range saved.Sums {
		if i == 1 {
			g = restored.grid(restored.fineColumns())
		}
		if i > 0 {
			if err := restored.question(g, i); err != nil {
				return false, pipeline.Misfit(path, err)
			}
		}
		restored.sums[i] = make([]float32, restored.questions[i].entries)
		if err := set.CopyTo("", tensorOf(fmt.Sprintf("sum%d", i), restored.sums[i])); err != nil {
			return false, pipeline.Misfit(path, err)
		}
	}
	*s = restored
	return true, nil
}
