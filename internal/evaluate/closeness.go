package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// ClosenessOptions are the settings of CompareCloseness; zeros are the defaults.
type ClosenessOptions struct {
	Queries int    // largest number of rows whose closest row is searched; 5,000, fewer in large tables
	Rows    int    // largest number of rows of a table that are searched; 50,000
	Seed    uint64 // of all samples
}

// CompareCloseness measures how near synthetic rows come to the real rows of train, from which they were
// learned, compared with real rows of test, from which they were not.
//
// The distance of two rows is the mean over the data columns of (Gower 1971): the difference of two numbers in
// units of the column's public range; 0 for equal and 1 for different categories; and 0 for two empty cells and
// 1 for one. It is 0 to 1.
//
// A larger table has a closer closest row, so train and test are first cut to equally many rows, drawn by the
// seed. A synthetic row at the same distance from both counts half as closer to train. Copies are rows equal in
// every cell; if training rows were left out, notes give the share of copies of all of them. The closest row is
// searched for at most o.Queries synthetic rows, and for the membership for half as many rows of train and of
// test each; notes tell of samples. weight are the weights of the synthetic rows, nil for 1 each; rows of
// weight 0 are ignored.
//
// The result is nil, with a note, without data columns. It fails for tables without rows or with different
// columns, with ErrWeights, and for negative options. The same input gives the same result on any number of
// processors. NOT PRIVATE.
func CompareCloseness(train, test, synthetic *partition.Table, weight []float64, o ClosenessOptions) (
	*Closeness, []string, error) {
	fail := func(err error) (*Closeness, []string, error) { return nil, nil, fmt.Errorf("closeness: %w", err) }
	if train == nil {
		return fail(errors.New("the training rows are missing"))
	}
	if _, err := checkTables(train, test, nil); err != nil {
		return fail(err)
	}
	weight, err := checkTables(train, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	if o.Queries < 0 || o.Rows < 0 {
		return fail(fmt.Errorf("%d queries and %d rows: choose positive numbers, or 0 for the defaults", o.Queries,
			o.Rows))
	}
	s := newSpace(train.Schema())
	if len(s.columns) == 0 {
		return nil, []string{"closeness: no column holds data"}, nil
	}
	p := drawClose(train.Len(), test.Len(), weight, len(s.columns), o)

	var c Closeness
	c.CopiesTrain = copies(synthetic, p.present, weight, train, p.train, s.columns)
	c.CopiesTest = copies(synthetic, p.present, weight, test, p.test, s.columns)
	notes := p.notes
	if len(p.train) < train.Len() {
		notes = append(notes, fmt.Sprintf("closeness: %.4g%% of the synthetic rows equal one of all %d training rows",
			100*copies(synthetic, p.present, weight, train, count(train.Len()), s.columns), train.Len()))
	}

	c.TestInTrain = copies(test, count(test.Len()), slices.Repeat([]float64{1}, test.Len()), train, count(train.Len()),
		s.columns)
	if c.TestInTrain >= 0.5 {
		notes = append(notes, fmt.Sprintf(
			"closeness: %.4g%% of the test rows equal a training row, so memorized rows are hard to detect; if the "+
				"test rows were used in the training, give others", 100*c.TestInTrain))
	}

	made := s.points(synthetic, p.made)
	s.sort(made) // before the other points are laid out
	queries, queryWeight := s.points(synthetic, p.queries), pick(weight, p.queries)
	toTrain := s.closest(queries, s.points(train, p.train))
	toTest := s.closest(queries, s.points(test, p.test))
	var closer, total float64
	for i, w := range queryWeight {
		total += w
		switch {
		case toTrain[i] < toTest[i]:
			closer += w
		case toTrain[i] == toTest[i]:
			closer += w / 2
		}
	}
	c.CloserToTrain = closer / total
	if c.DistanceTrain, err = measure.Median(toTrain, queryWeight); err != nil {
		return fail(err)
	}
	if c.DistanceTest, err = measure.Median(toTest, queryWeight); err != nil {
		return fail(err)
	}
	near := append(s.closest(s.points(train, p.members), made), s.closest(s.points(test, p.others), made)...)
	member := make([]bool, len(near))
	for i := range near {
		near[i], member[i] = -near[i], i < len(p.members)
	}
	if c.MembershipAUROC, err = measure.AUROC(member, near, nil); err != nil {
		return fail(err)
	}
	return &c, notes, nil
}

type closeRows struct {
	present         []int // synthetic rows of weight above 0
	queries, made   []int // of these: the rows that search, and the rows that are searched
	train, test     []int // equally many
	members, others []int // of these: the rows tested for membership
	notes           []string
}

// closeWork bounds the coordinates that are compared by default, about ten seconds of one processor.
const closeWork = 1e10

func drawClose(train, test int, weight []float64, columns int, o ClosenessOptions) closeRows {
	var p closeRows
	largest := slices.Max(weight)
	for i, w := range weight {
		if w > 0 {
			p.present = append(p.present, i)
		}
	}
	most := cmp.Or(o.Rows, 50_000)
	equal, made := min(train, test, most), min(len(p.present), most)
	queries := cmp.Or(o.Queries, max(500, min(5_000, int(closeWork/(float64(2*equal+made)*float64(columns))))))
	members := min(equal, max(1, queries/2))
	// Every sample has its own random stream, so that none depends on the size of another.
	draw := func(stream uint64, from []int, most int) []int {
		return sample(rand.New(rand.NewPCG(o.Seed, stream)), from, most)
	}
	p.train, p.test = draw(1, count(train), equal), draw(2, count(test), equal)
	p.queries, p.made = draw(3, p.present, queries), draw(4, p.present, made)
	p.members, p.others = draw(5, p.train, members), draw(6, p.test, members)

	note := func(format string, a ...any) { p.notes = append(p.notes, fmt.Sprintf("closeness: "+format, a...)) }
	if equal < max(train, test) {
		note("%d of %d training and of %d test rows each, drawn at random", equal, train, test)
	}
	if len(p.queries) < len(p.present) {
		note("distances are those of %d synthetic rows drawn at random", len(p.queries))
	}
	if slices.ContainsFunc(weight, func(w float64) bool { return w > 0 && w != largest }) {
		note("membership ignores the weights of synthetic rows, except 0")
	}
	if members < equal || made < len(p.present) {
		note("membership was tested for %d training and %d test rows with %d synthetic ones, drawn at random", members,
			members, made)
	}
	return p
}

// sample draws at most `most` of the given rows and keeps their order.
func sample(random *rand.Rand, from []int, most int) []int {
	if len(from) <= most {
		return from
	}
	out := slices.Clone(from)
	for i := range most {
		k := i + random.IntN(len(out)-i)
		out[i], out[k] = out[k], out[i]
	}
	out = out[:most]
	slices.Sort(out)
	return out
}

func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
