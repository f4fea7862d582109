package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
)

// marginals measures the pipeline of tables beside an embedding, the baselines that cost little, and
// rows that other programs made. See marginals.md.
func marginals() *experiment {
	others := &programs{}
	return &experiment{
		name: "marginals", short: "compare marginals, an embedding, baselines and other programs on well-known tables",
		coin: true, seeds: 3, groups: func() ([]group, error) { return marginalsGroups(others), nil },
		flags: others.flags,
	}
}

// mostMade bounds the synthetic rows: as many as the real ones would take long to evaluate.
const mostMade = 10_000

func marginalsGroups(others *programs) (all []group) {
	for _, d := range []struct {
		name string
		rows int
	}{
		{"flchain", 6299}, {"adult", mostMade}, {"credit", mostMade}, {"diabetes130", mostMade},
		{"census1940", mostMade}, {"titanic", 891}, {"cervical_cancer", 686}, {"boston_housing", 404},
		{"epileptic_seizure", 9200}, {"isolet", 6238}, {"brfss2015", mostMade}, {"support2", 7284},
		{"support2_death", 7284},
	} {
		for _, epsilon := range []float64{0.1, 1, 10} {
			g := group{
				name: fmt.Sprintf("%s-%v", d.name, epsilon), data: d.name, epsilon: epsilon, delta: lineDelta,
				pipeline: "marginals", rows: d.rows, sites: 2, worth: inspected,
				cases: []runCase{
					{name: "marginals"}, {name: "embed", fields: "pipeline: embed"},
					{name: "independent columns", made: columnsAlone}, {name: "naive Bayes", made: naiveBayes},
					{name: "mst", made: others.rows}, {name: "aim", made: others.rows},
				},
			}
			switch d.name { // with new labels and without
			case "epileptic_seizure":
				g.cases = append(g.cases, runCase{name: "new labels",
					fields: "{post: [relabel], relabel: {share: 0.5}}"})
			case "flchain", "titanic", "adult", "support2_death":
				g.cases = append(g.cases, runCase{name: "new labels", fields: "post: [relabel]"})
			case "isolet": // new labels are its default
				g.cases[0].fields = "post: [relabel]"
				g.cases = append(g.cases, runCase{name: "own labels"})
			}
			if d.name == "flchain" || d.name == "adult" {
				g.cases = append(g.cases, runCase{name: "pategan", fields: "{pipeline: pategan, teachers: 1000}"})
			}
			all = append(all, g)
		}
	}
	return all
}

// inspected is what rows are worth to models, and to people who look at them: distances of tables of one,
// two and three columns, whether a regression tells the rows from real ones, and the share of them that
// breaks a dependence that all real rows keep. What a data set has no figure of is not a number.
var inspected = &measure{names: []string{
	auroc, "logistic AUROC", "R2", "w1", "w2", "w3", "pMSE ratio", "broken",
}, of: func(ctx context.Context, d *dataset, rows *table) ([]float64, error) {
	figures := slices.Repeat([]float64{math.NaN()}, 8)
	schema := d.test.Schema()
	switch label := schema.LabelColumn(); {
	case len(schema.Classes()) > 1:
		models, err := classify.Named(yardsticks...)
		if err != nil {
			return nil, err
		}
		worth, err := trained(ctx, d, rows, models...)
		if err != nil {
			return nil, err
		}
		figures[0], figures[1] = meanArea(worth), 0.5
		if len(worth) > 0 {
			figures[1] = worth[0].AUROC // of logistic regression
		}
	case label >= 0:
		r2, err := explained(ctx, d, rows, label)
		if err != nil {
			return nil, err
		}
		figures[2] = r2
	}
	tables, _, err := evaluate.CompareMarginals(d.test, rows, nil, evaluate.MarginalOptions{Sets: 200})
	if err != nil {
		return nil, err
	}
	for i, t := range tables {
		figures[3+i] = t.Mean
	}
	propensity, _, err := evaluate.ComparePropensity(d.test, rows, nil)
	if err != nil {
		return nil, err
	}
	if propensity != nil {
		figures[6] = propensity.Ratio
	}
	if share, any := broken(d, rows); any {
		figures[7] = share
	}
	return figures, nil
}}

// explained is R2 of regressions of the label on test rows, the mean over all.
func explained(ctx context.Context, d *dataset, rows *table, label int) (float64, error) {
	all, err := evaluate.CompareRegressors(ctx, nil, d.test, rows, nil, d.test.Schema().Columns[label].Name)
	if err != nil {
		return 0, err
	}
	var labels []float64
	for i := range d.test.Len() {
		if v := d.test.Cells(i)[label]; !math.IsNaN(v) {
			labels = append(labels, v)
		}
	}
	variance := stat.PopVariance(labels, nil)
	var r2 []float64
	for _, u := range all {
		r2 = append(r2, 1-u.RMSESynthetic*u.RMSESynthetic/variance)
	}
	return mean(r2), nil
}

// mostValues is the largest number of values of a column in a dependence, leastRows the smallest mean number of
// real rows for a value: other columns depend on each other by chance.
const mostValues, leastRows = 100, 50

// broken is the share of rows that break a dependence which holds in all real rows: where one column follows
// from another. There may be none.
func broken(d *dataset, rows *table) (share float64, any bool) {
	type dependence struct {
		from, to int
		of       map[float64]float64
	}
	var all []dependence
	columns := d.test.Schema().Columns
	for from := range columns {
		for to := range columns {
			if from == to {
				continue
			}
			if of := follows(d, from, to); of != nil {
				all = append(all, dependence{from, to, of})
			}
		}
	}
	count := 0
	for i := range rows.Len() {
		row := rows.Cells(i)
		for _, f := range all {
			if to, known := f.of[key(row[f.from])]; known && to != key(row[f.to]) {
				count++
				break
			}
		}
	}
	return float64(count) / float64(rows.Len()), len(all) > 0
}

// follows returns the value of a column for each value of another, nil if the first does not follow from the other
// in all real rows.
func follows(d *dataset, from, to int) map[float64]float64 {
	of, values := map[float64]float64{}, map[float64]bool{}
	n := 0
	for _, t := range []*table{d.train, d.test} {
		if columns := t.Schema().Columns; columns[from].Kind == partition.Continuous ||
			columns[to].Kind == partition.Continuous {
			return nil
		}
		for i := range t.Len() {
			row := t.Cells(i)
			a, b := key(row[from]), key(row[to])
			if was, known := of[a]; known && was != b {
				return nil
			}
			of[a], values[b] = b, true
			if n++; len(of) > mostValues {
				return nil
			}
		}
	}
	if len(values) < 3 || n < leastRows*len(of) {
		return nil
	}
	return of
}

// key is a cell as a map key: an empty cell is NaN, which equals nothing.
func key(v float64) float64 {
	if math.IsNaN(v) {
		return math.Inf(1)
	}
	return v
}
