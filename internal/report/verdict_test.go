package report

import (
	"bytes"
	"html"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/baseline"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func verdictOf(t *testing.T, p Page) Verdict {
	t.Helper()
	return p.verdict(explained(t, p))
}

func TestVerdicts(t *testing.T) {
	c, _ := example(t)
	coin, weak := c, c
	coin.Votes = certificate.VotesCoin
	weak.Delta = 0.1
	column := func(score float64) evaluate.ColumnQuality {
		return evaluate.ColumnQuality{Shape: evaluate.Shape{Column: "a", Score: &score}}
	}
	pair := func(score float64) evaluate.PairTrend { return evaluate.PairTrend{Score: &score} }
	between := &evaluate.Baselines{Independent: evaluate.Scores{Pairs: some(0.8)},
		Real: &evaluate.Scores{Columns: some(0.9), Pairs: some(0.98)}}
	alike := &evaluate.Baselines{Independent: evaluate.Scores{Pairs: some(0.945)},
		Real: &evaluate.Scores{Pairs: some(0.952)}}
	models := func(a *evaluate.Ranking, b float64) []evaluate.ModelUtility {
		return []evaluate.ModelUtility{{Model: "m", A: a, B: &evaluate.Ranking{AUROC: b}}}
	}
	for _, v := range []struct {
		name     string
		page     Page
		fit, not string
	}{
		{"nothing compared", Page{Certificate: c}, "other uses were not measured, because",
			"before they are checked on real rows, and never"},
		{"coins", Page{Certificate: coin, Evaluation: &evaluate.Evaluation{
			Columns: []evaluate.ColumnQuality{column(1)}}},
			"Fit only for comparison", "Not fit for any analysis"},
		{"weak", Page{Certificate: weak}, "trying out software", "the protection is weak"},
		{"columns as good as real ones", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Columns: []evaluate.ColumnQuality{column(0.88)}, Baselines: between}},
			"Fit for shares and averages", "Not fit for findings that are not checked"},
		{"columns without a baseline", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Columns: []evaluate.ColumnQuality{column(0.88)}}}, "no other measured use", "Not fit for shares and " +
			"averages"},
		{"one bad column", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Columns: []evaluate.ColumnQuality{column(1), column(1), column(1), column(1), column(0.79)}}},
			"no other measured use", "Not fit for shares and averages"},
		{"pairs like independent columns", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs: []evaluate.PairTrend{pair(0.81)}, Baselines: between}},
			"no other measured use", "Not fit for relations between two columns"},
		{"pairs where real rows are like independent columns", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs: []evaluate.PairTrend{pair(0.94)}, Baselines: alike}},
			"no other measured use; the test rows cannot tell whether for relations between two columns.",
			"Not fit for findings that are not checked"},
		{"pairs worse than both", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs: []evaluate.PairTrend{pair(0.9)}, Baselines: alike}},
			"no other measured use.", "Not fit for relations between two columns"},
		{"a worst pair like that of real rows", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs:     []evaluate.PairTrend{pair(1), pair(1), pair(0.6)},
			Baselines: &evaluate.Baselines{Real: &evaluate.Scores{WorstPair: some(0.63)}}}},
			"no other measured use.", "Not fit for relations between two columns"},
		{"a worst pair like that of real rows, and their mean", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs:     []evaluate.PairTrend{pair(1), pair(1), pair(0.6)},
			Baselines: &evaluate.Baselines{Real: &evaluate.Scores{Pairs: some(0.9), WorstPair: some(0.63)}}}},
			"Fit for relations between two columns", "and never"},
		{"a worst column below that of real rows", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Columns:   []evaluate.ColumnQuality{column(1), column(0.7)},
			Baselines: &evaluate.Baselines{Real: &evaluate.Scores{Columns: some(0.8), WorstColumn: some(0.75)}}}},
			"no other measured use.", "Not fit for shares and averages"},
		{"pairs like real rows", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs: []evaluate.PairTrend{pair(0.95)}, Baselines: between}},
			"Fit for relations between two columns", "and never"},
		{"one bad pair", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Pairs: []evaluate.PairTrend{pair(1), pair(1), pair(0.69)}}}, "no other measured use",
			"Not fit for relations " +
				"between two columns"},
		{"predictions near real ones", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Utility: models(&evaluate.Ranking{AUROC: 0.6}, 0.59)}}, "Fit for training models of the label",
			"and never"},
		{"predictions far from real ones", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Utility: models(&evaluate.Ranking{AUROC: 0.9}, 0.75)}}, "no other measured use", "Not fit for training " +
			"models"},
		{"predictions without a ceiling", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Utility: models(nil, 0.71)}}, "Fit for training models of the label", "and never"},
		{"new combinations", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Unseen: &evaluate.Unseen{Rows: 0.06}}}, "no other measured use", "Not fit for combinations of values"},
		{"images", Page{Certificate: c, Evaluation: &evaluate.Evaluation{
			Images: &evaluate.ImageQuality{AccuracySynthetic: 0.8, AccuracyReal: 0.95}}},
			"Fit for training models that recognize images", "and never"},
	} {
		got := verdictOf(t, v.page)
		if !strings.Contains(got.Fit, v.fit) || !strings.Contains(got.NotFit, v.not) {
			t.Errorf("%s: %q %q; want %q and %q", v.name, got.Fit, got.NotFit, v.fit, v.not)
		}
		if strings.Count(got.Fit, ". ") > 0 || !strings.HasSuffix(got.NotFit, ".") {
			t.Errorf("%s is not two sentences: %q %q", v.name, got.Fit, got.NotFit)
		}
	}
}

// Rows like the real ones are never called not fit because there are few test rows, and rows that lost the relations
// never fit.
func TestFewTestRows(t *testing.T) {
	schema := partitiontest.Schema(t, `name: few
task: none
columns:
  - {name: a, kind: categorical, categories: [a, b, c, d, e, f]}
  - {name: b, kind: categorical, categories: [a, b, c, d, e, f]}
  - {name: c, kind: binary}
`)
	// In follow of ten rows, the second column is the first.
	drawn := func(rows, follow int, seed uint64) *partition.Table {
		r, made := rand.New(rand.NewPCG(seed, 1)), partition.NewTable(schema)
		for range rows {
			a, b, c := float64(r.IntN(6)), float64(r.IntN(6)), float64(r.IntN(2))
			if r.IntN(10) < follow {
				b = a
			}
			testkit.Must(t, made.Append([]float64{a, b, c}, ""))
		}
		return made
	}
	rule := func(test, train, synthetic *partition.Table) *Rule {
		e := &evaluate.Evaluation{}
		testkit.Must(t, baseline.Add(t.Context(), e, evaluate.Input{Test: test, Train: train, Synthetic: synthetic}))
		pairs, _, err := evaluate.ComparePairs(test, synthetic, nil, 1)
		testkit.Must(t, err)
		e.Pairs = pairs
		return pairsOfColumns(e)
	}
	for seed := range uint64(5) {
		for name, train := range map[string]bool{"training rows": true, "none": false} {
			var weak, strong *partition.Table
			if train {
				weak, strong = drawn(400, 1, seed+10), drawn(400, 9, seed+20)
			}
			test := drawn(100, 1, seed)
			if r := rule(test, weak, drawn(3000, 1, seed+30)); !r.Open && !r.Fit {
				t.Errorf("weak relations, %s: %+v", name, r)
			}
			if r := rule(test, weak, drawn(3000, 9, seed+30)); r.Open || r.Fit {
				t.Errorf("invented relations, %s: %+v", name, r)
			}
			test = drawn(100, 9, seed)
			if r := rule(test, strong, drawn(3000, 9, seed+40)); !r.Fit && (train || !r.Open) {
				t.Errorf("strong relations, %s: %+v", name, r)
			}
			if r := rule(test, strong, drawn(3000, 0, seed+40)); r.Open || r.Fit {
				t.Errorf("lost relations, %s: %+v", name, r)
			}
		}
	}
}

// The page, the text and the file for programs say the same.
func TestTheThreeFormsAgree(t *testing.T) {
	p := fullPage(t)
	p.About = About{Purpose: "a study", Sites: []string{"north", "south"}, Operator: "ministry", Records: 7000}
	p.Constraints = &Constraints{Broken: []int{0, 12}}
	p.Certificate.Notes = []string{"Epsilon is large."}
	page := html.UnescapeString(write(t, p))
	text := html.UnescapeString(strings.ReplaceAll(markdownOf(t, p), `\`, ""))
	var out bytes.Buffer
	testkit.Must(t, WriteJSON(&out, p))
	f, err := ReadJSON(out.Bytes())
	testkit.Must(t, err)
	w := explained(t, p)
	facts := []string{
		f.Verdict.Fit, f.Verdict.NotFit, f.Strength + " protection", w.Guess.Value, w.Guess.Says, w.Guess.Basis,
		f.About.Purpose, f.About.Operator, "north, south", "7,000", f.Constraints.Says(p.Certificate.Rows),
		"Epsilon is large.", misleads,
	}
	if len(f.Verdict.Rules) < 4 {
		t.Errorf("the verdict has %d rules", len(f.Verdict.Rules))
	}
	for _, r := range f.Verdict.Rules {
		facts = append(facts, r.Use, r.Figure, r.Needs)
	}
	for _, table := range measurements(f.Evaluation) {
		facts = append(facts, table.Name, table.Says)
		for _, row := range table.Rows {
			facts = append(facts, row...)
		}
	}
	for _, fact := range facts {
		if fact == "" {
			continue
		}
		if !strings.Contains(page, fact) {
			t.Errorf("the page lacks %q", fact)
		}
		if !strings.Contains(text, fact) {
			t.Errorf("the text lacks %q", fact)
		}
	}
}

// Without real rows the strongest pairs of the synthetic ones are listed, in all three forms.
func TestStrongestPairs(t *testing.T) {
	c, _ := example(t)
	pairs := []evaluate.PairTrend{
		{Columns: [2]string{"a", "b"}, Real: some(0.2), Synthetic: some(-0.2)},
		{Columns: [2]string{"c", "d"},
			Association: &evaluate.Association{Measure: evaluate.CorrelationRatio, Synthetic: 0.7}},
		{Columns: [2]string{"a", "constant"}},
	}
	table := strongest(pairs)
	if len(table.Rows) != 2 || table.Rows[0][0] != "c, d" || table.Rows[1][2] != "−0.20" {
		t.Fatalf("the rows are %q", table.Rows)
	}
	p := Page{Certificate: c, Pairs: pairs}
	page, text := write(t, p), markdownOf(t, p)
	for _, row := range table.Rows {
		for _, cell := range row {
			if !strings.Contains(page, cell) || !strings.Contains(text, cell) {
				t.Errorf("%q is not in the page or not in the text", cell)
			}
		}
	}
	if strings.Contains(page, "NOT PRIVATE") {
		t.Error("a page of synthetic rows alone is marked")
	}
}

func TestWorstPairsComeFirst(t *testing.T) {
	pairs := worstPairs(evaluation())
	if got := pairs.Rows[0]; got[0] != "creatinine, year" || got[2] != "+0.25" {
		t.Errorf("the first pair is %q", got)
	}
	if got := pairs.Rows[1]; got[1] != "Cramér's V" || got[2] != "0.41" || got[3] != "0.17" {
		t.Errorf("the second pair is %q", got)
	}
}

// One point is shown as a sentence, not as a chart.
func TestOnePointIsASentence(t *testing.T) {
	c, rounds := example(t)
	page := write(t, Page{Certificate: c, Rounds: rounds[1:2]})
	if strings.Contains(page, "<figure") || !strings.Contains(page, "There was one answer, and it spent epsilon") ||
		!strings.Contains(page, "over 1 round") {
		t.Error("one round has a chart, or no sentence")
	}
}

// The page says where a figure tells little: pairs whose baselines are alike, and the order of two models.
func TestFiguresThatSayLittle(t *testing.T) {
	score := 0.94
	e := &evaluate.Evaluation{Pairs: []evaluate.PairTrend{{Score: &score}}, Baselines: &evaluate.Baselines{
		Independent: evaluate.Scores{Pairs: some(0.945)}, Real: &evaluate.Scores{Pairs: some(0.952)}}}
	const alike = "; real rows have 0.952, independent columns 0.945: too close to say how much was kept, because " +
		"the test rows are too few or the columns hardly depend on each other"
	if r := pairsOfColumns(e); !strings.HasSuffix(r.Figure, alike) {
		t.Errorf("the figure is %q", r.Figure)
	}
	for models, little := range map[int]bool{2: true, 3: false} {
		e := &evaluate.Evaluation{RankingAgreement: some(1), Utility: make([]evaluate.ModelUtility, models)}
		if says := newUtilityTable(e).Agreements[0].Says; strings.Contains(says, "one pair") != little {
			t.Errorf("%d models: %q", models, says)
		}
	}
}
