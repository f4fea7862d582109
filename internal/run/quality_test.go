package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// A figure of quality is an entry of the plan of every pipeline of tables, by its share of the budget; the total stays,
// and the training has the rest. Forecast and questions have its price and its message.
func TestTheFigureOfQualityIsPlanned(t *testing.T) {
	const figure = "quality: {budget: 0.2}\n"
	schema := partitiontest.Schema(t, schemaText)
	node := Node{Dataset: "d", Site: "north", Node: "1", Teachers: 15}
	for _, base := range []string{"pipeline: marginals\nteachers: 40\n", embedding, gradients, steps, votes} {
		for _, masked := range []string{"", inMasks()} {
			without, with := runOf(t, base, masked), runOf(t, base, masked, figure)
			p, err := NewPlan(with, schema)
			if err != nil && strings.Contains(err.Error(), "aggregation.masked") {
				continue // a figure that cannot be masked by itself
			}
			testkit.Must(t, err)
			entry, ok := p.Stages.Of("quality")
			if !ok || entry.Kind != "marginals" || entry.Count != 1 || !slices.Contains(p.Planned(), entry) {
				t.Fatalf("%s: the plan is %+v", base, p.Planned())
			}
			alone, err := privacy.Account(entry.Worst(1), 1e-5)
			testkit.Must(t, err)
			if alone.Epsilon > 0.2 || alone.Epsilon < 0.199 {
				t.Errorf("%s: the figure by itself costs %v", base, alone.Epsilon)
			}
			f := testkit.Value(NewForecast(with, schema, node))
			before := testkit.Value(NewForecast(without, schema, node))
			if f.Claim.Epsilon > 1 || len(f.Shares) != 1 || f.Shares[0].Epsilon != 0.2 || len(before.Shares) != 0 {
				t.Errorf("%s: the run costs %v, its shares are %+v", base, f.Claim.Epsilon, f.Shares)
			}
			if base != steps && f.Admitted > before.Admitted {
				t.Errorf("%s: %d queries with a figure, %d without", base, f.Admitted, before.Admitted)
			}
			if len(f.Leaving) != len(before.Leaving)+1 {
				t.Errorf("%s: leaving %+v", base, f.Leaving)
			}
			_, questions, err := Questions(with, schema, node)
			testkit.Must(t, err)
			last := questions[len(questions)-1]
			if last.Stage != "quality" || last.Answer.Name != "counts for quality" || last.Answer.Bytes == 0 ||
				len(last.Charges) != 1 || last.Charged != 1 {
				t.Errorf("%s: the last question is %+v", base, last)
			}
		}
	}
}

// Images have no figure of quality, and a value that is not a share is refused when the file is read.
func TestFiguresOfQualityThatCannotBe(t *testing.T) {
	if _, err := load(t, good+"quality: {budget: 1}\n"); err == nil ||
		!strings.Contains(err.Error(), "quality.budget: 1 is not a share") {
		t.Errorf("all of the budget: %v", err)
	}
	s := runOf(t, "pipeline: embed\nteachers: 40\nquality: {budget: 0.1}\n")
	if err := s.CheckStages(partitiontest.Schema(t, imageSchema)); err == nil ||
		!strings.Contains(err.Error(), "quality.budget: the quality figure is for tables") {
		t.Errorf("images: %v", err)
	}
}
