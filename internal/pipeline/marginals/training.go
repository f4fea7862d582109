package marginals

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/partition"
)

// training is the training of one run.
type training struct {
	o Options
	pipeline.Problem
}

func newTraining(o pipeline.Options, p pipeline.Problem) pipeline.Training {
	return &training{o.(*Options).chosen(p.Records, p.Classes), p}
}

func (t *training) Chosen() any { return t.o }

func (t *training) Quorum() (share, deadline float64) { return t.o.Quorum, t.o.Deadline }

func (t *training) schema() *partition.Schema { return t.Encoder.Schema() }

// Plan spends the budget on three sums: the first gets the option's share of mu^2, and the other two share the
// rest equally.
func (t *training) Plan(p *plan.Plan, budget privacy.Budget) error {
	sigma, err := privacy.GaussianSigma(budget, 1, p.Stages.Cost())
	if err != nil {
		return err
	}
	of := func(kind string, share float64) privacy.Planned {
		return privacy.Planned{Kind: kind, Mechanism: budget.Event(privacy.Event{
			Kind: privacy.Gaussian, Sigma: sigma / math.Sqrt(share),
		})}
	}
	first, err := t.columnsQuestion(sigma / math.Sqrt(t.o.Columns))
	if err != nil {
		return err
	}
	if err := t.checkConstraints(first.columns); err != nil {
		return err
	}
	p.Start = &plan.Start{Planned: of(columnsKind, t.o.Columns), Entries: first.entries}
	p.Start.Planned.Count = 1
	p.Training = of(pairsKind, t.ofPairs())
	second, third, err := t.largestQuestions(p.Training.Mechanism.Sigma)
	if err != nil {
		return err
	}
	entries := max(second.entries, third.entries)
	p.Queries, p.Rounds, p.PerRound = 2*entries, 2, entries
	return p.Drawable(max(second.bound, third.bound))
}

// ofPairs is the share of mu^2 that each of the last two sums gets.
func (t *training) ofPairs() float64 { return (1 - t.o.Columns) / 2 }

// largestQuestions returns the second and the third question with the largest possible number of cells.
func (t *training) largestQuestions(sigma float64) (second, third *asked, err error) {
	columns := t.widest()
	if !t.isWide(columns) {
		second, err = t.pairsQuestion(columns, t.pairsOf(columns), onColumns, sigma)
		return second, second, err
	}
	even := make([]signs, len(columns))
	for i := range columns {
		even[i] = signsOf(&columns[i], slices.Repeat([]float64{1}, columns[i].n))
	}
	if second, err = t.wideQuestion(columns, even, sigma); err == nil {
		third, err = t.signsQuestion(columns, even, sigma)
	}
	return second, third, err
}

// bound returns the largest norm, in steps, for which noise of a multiplier can be drawn.
func bound(sigma float64) float64 { return float64(plan.FinestBound(sigma, mostBound)) }

// largestBound returns the bound of a sum, or an error if its weights would be too small.
func largestBound(sigma float64) (float64, error) {
	largest := bound(sigma)
	if largest < leastBound {
		return 0, fmt.Errorf("the sums need a noise multiplier of %.4g, and %.4g is the most that is drawn; raise "+
			"privacy.epsilon", sigma, plan.MostSigma/float64(leastBound))
	}
	return largest, nil
}

// leastBound ensures that the rounded weights of many tables are near the exact ones.
const leastBound = 1 << 9

// columnsQuestion asks for each column by itself, in fine cells.
func (t *training) columnsQuestion(sigma float64) (*asked, error) {
	a := &asked{}
	for _, at := range learnedColumns(t.schema()) {
		c := &t.schema().Columns[at]
		var from []float64
		if isNumber(c) {
			from = fineCells(c, t.o.Fine)
		}
		a.columns = append(a.columns, plain(t.schema(), at, from))
	}
	for i := range a.columns {
		if c := &a.columns[i]; blockOf(c) > 0 {
			larger := *c
			larger.from = everyOf(c.from, blockOf(c))
			larger.n -= len(c.from) - len(larger.from)
			a.columns = append(a.columns, larger)
		}
	}
	weights := make([]float64, len(a.columns))
	for i := range weights {
		weights[i] = 1
	}
	return a, a.fill(sigma, nil, weights, nil)
}

// blockOf is the number of fine cells of a column that are also counted together, 0 for none.
func blockOf(c *cells) int {
	if len(c.from) < 2*blocks {
		return 0
	}
	return (len(c.from) + blocks - 1) / blocks
}

// everyOf returns the first of each block.
func everyOf(from []float64, block int) (out []float64) {
	for i := 0; i < len(from); i += block {
		out = append(out, from[i])
	}
	return out
}

// onColumns is the share of the squared weight of the second and third sum that is on columns; the rest is on
// pairs. onFewColumns is the share if records are few: noise of the first sum hides the columns.
const (
	onColumns    = 0.1
	onFewColumns = 0.6
)

// labelPlace returns the place of the label among the columns, -1 without one.
func (t *training) labelPlace() int {
	return slices.Index(learnedColumns(t.schema()), t.schema().LabelColumn())
}

// pairsOf returns the pairs of columns whose tables the second sum asks for. These are all pairs, unless they
// would have too many cells. Then they are the pairs with the label and, unless signs replace them, those of
// neighbours.
func (t *training) pairsOf(columns []cells) (all [][2]int) {
	size, label := 0, t.labelPlace()
	wide, halved := t.isWide(columns), t.halved(columns)
	for i, c := range columns {
		for j := i + 1; j < len(columns); j++ {
			size += c.n * columns[j].n
		}
	}
	for i := range columns {
		for j := i + 1; j < len(columns); j++ {
			switch other := i + j - label; {
			case wide && (i != label && j != label || slices.Contains(halved, other)):
			case wide, size <= maxEntries/2, i == label, j == label, j == i+1:
				all = append(all, [2]int{i, j})
			}
		}
	}
	return all
}

// arePairs tells whether there are tables of some pairs of columns.
func (t *training) arePairs(of [][2]int) bool {
	n := len(learnedColumns(t.schema()))
	return !slices.ContainsFunc(of, func(p [2]int) bool { return p[0] < 0 || p[0] >= p[1] || p[1] >= n })
}

// pairsQuestion asks for every column by itself and for pairs of columns. Smaller tables get more weight, since
// larger ones are checked against them.
func (t *training) pairsQuestion(columns []cells, of [][2]int, alone, sigma float64) (*asked, error) {
	return (&asked{columns: columns}).pairs(len(columns), alone, of, nil, sigma)
}

// wideQuestion asks for every column by itself, and for its dependence on the label.
func (t *training) wideQuestion(columns []cells, of []signs, sigma float64) (*asked, error) {
	with, contrasts := t.contrasts(columns, of)
	return (&asked{columns: with}).pairs(len(columns), onWideColumns, t.pairsOf(t.widest()), contrasts, sigma)
}

// pairs asks for the first n columns by themselves, which get a share of the squared weight, for pairs of them,
// and for contrasts.
func (a *asked) pairs(n int, share float64, of [][2]int, contrasts []contrast, sigma float64) (*asked, error) {
	alone, pairs := make([]float64, n), make([]float64, len(of))
	for i := range alone {
		alone[i] = math.Pow(float64(a.columns[i].n), -0.25)
	}
	for i, p := range of {
		pairs[i] = math.Pow(float64(a.columns[p[0]].n*a.columns[p[1]].n), -0.25)
	}
	for _, c := range contrasts {
		of, pairs = append(of, [2]int{c.first, c.second}), append(pairs, c.weight)
	}
	if len(of) == 0 {
		scaled(alone, 1)
	} else {
		scaled(alone, share)
		scaled(pairs, 1-share)
	}
	return a, a.fill(sigma, of, alone, pairs)
}

// scaled scales weights so that their squares add up to a share.
func scaled(weights []float64, share float64) {
	sum := 0.0
	for _, w := range weights {
		sum += w * w
	}
	for i := range weights {
		weights[i] *= math.Sqrt(share / sum)
	}
}

// fill adds tables of all columns and of some pairs, with weights in proportion to those given.
func (a *asked) fill(sigma float64, pairs [][2]int, alone, together []float64) error {
	squares := 0.0
	for _, w := range append(append([]float64(nil), alone...), together...) {
		squares += w * w
	}
	largest, err := largestBound(sigma)
	if err != nil {
		return err
	}
	whole := func(w float64) int64 { return max(1, int64(w/math.Sqrt(squares)*largest)) }
	for i, w := range alone {
		a.add(i, i, whole(w))
	}
	for i, of := range pairs {
		a.add(of[0], of[1], whole(together[i]))
	}
	a.close()
	if a.entries > maxEntries {
		return a.tooMany(len(pairs) > 0)
	}
	if a.bound > mostBound {
		return fmt.Errorf("there are too many pairs of %d columns", len(a.columns))
	}
	return nil
}

// tooMany is the error for tables with too many cells, some of them of pairs of columns. Fewer cells of numbers are
// the remedy only if they suffice.
func (a *asked) tooMany(pairs bool) error {
	fewest := func(column int) int {
		c := &a.columns[column]
		if isNumber(c.of) && !c.sign {
			return min(c.n, 2+c.n-len(c.from))
		}
		return c.size()
	}
	least, columns, most := 0, map[int]bool{}, (*cells)(nil)
	for _, t := range a.tables {
		n := fewest(t.first)
		if t.second != t.first {
			n *= fewest(t.second)
		}
		least += n
	}
	for i := range a.columns {
		c := &a.columns[i]
		columns[c.column] = true
		if !isNumber(c.of) && (most == nil || c.n > most.n) {
			most = c
		}
	}
	of, fix := fmt.Sprintf("%d columns", len(columns)), "lower marginals.fine"
	if pairs {
		of, fix = of+" and of pairs of them", "lower marginals.cells"
	}
	switch {
	case least > maxEntries && most == nil:
		fix = "use a schema with fewer columns"
	case least > maxEntries:
		fix = fmt.Sprintf("use a schema with fewer categories; column %q has %d", most.of.Name, most.n)
	}
	return fmt.Errorf("the tables of %s have %d cells, and %d are the most; %s", of, a.entries, maxEntries, fix)
}

// widest returns the columns of the largest possible second or third sum.
func (t *training) widest() (columns []cells) {
	for _, at := range learnedColumns(t.schema()) {
		c := &t.schema().Columns[at]
		var from []float64
		if isNumber(c) {
			from = fineCells(c, t.o.Fine)
			from = from[:min(len(from), t.o.Cells+2*len(c.Points))]
		}
		columns = append(columns, plain(t.schema(), at, from))
	}
	return columns
}

// LargestStart returns the messages of the first sum.
func (t *training) LargestStart(p *plan.Plan) pipeline.Largest {
	a, err := t.columnsQuestion(p.Start.Planned.Mechanism.Sigma)
	if err != nil {
		return pipeline.Largest{}
	}
	return t.largest(a, columnsKind, 0, "fine cells of every column")
}

// Largest returns the messages of the second or the third sum.
func (t *training) Largest(p *plan.Plan, _ int) pipeline.Largest {
	second, third, err := t.largestQuestions(p.Training.Mechanism.Sigma)
	if err != nil {
		return pipeline.Largest{}
	}
	l := t.largest(second, pairsKind, 1, "cells of every column")
	if third.entries > second.entries {
		l.Answer = pipeline.LargestSum(t.Run, 2, third.entries, partition.MostStreamed*mostBound)
		l.AnswerContent = fmt.Sprintf("%d numbers: of each pair of columns, how many records more have both values "+
			"on the same side of a middle than on different ones; the aggregator sees them, and releases their sum "+
			"over all sites with noise only", third.entries)
	}
	return l
}

func (t *training) largest(a *asked, kind string, number uint64, content string) pipeline.Largest {
	r := a.round(kind)
	r.Run, r.Number = t.Run, number
	return pipeline.Largest{
		Round: r, RoundContent: content,
		Answer:     pipeline.LargestSum(t.Run, number, a.entries, partition.MostStreamed*mostBound),
		AnswerName: "counts of cells",
		AnswerContent: fmt.Sprintf("%d numbers: how many records are in each cell of %d tables; the aggregator sees "+
			"them, and releases their sum over all sites with noise only", a.entries, len(a.tables)),
	}
}
