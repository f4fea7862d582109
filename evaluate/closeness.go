package evaluate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// ClosenessOptions are the settings of CompareCloseness; zeros are the defaults.
type ClosenessOptions struct {
	Queries int    // rows whose closest row is searched, at most; 5,000
	Rows    int    // of a table that are searched, at most; 50,000
	Seed    uint64 // of all samples
}

// CompareCloseness says how near synthetic rows come to the real rows of train that
// they were learned from, beside real rows of test that they were not.
//
// The distance of two rows is the mean over the data columns of (Gower 1971): the
// difference of two numbers in units of the column's public range; 0 for equal and
// 1 for different categories; and 0 for two empty cells and 1 for one. It is 0 to 1.
//
// The more rows, the nearer the closest, so train and test are first cut to
// equally many rows, drawn by the seed. A synthetic row that is as far from both
// counts half as closer to train. Copies are rows equal in every cell; notes give
// the share of copies of all training rows where some were not drawn. At most
// o.Queries synthetic rows are asked for their closest row, and half as many of
// train and of test each for the membership; notes tell of samples. weight are
// the weights of the synthetic rows, nil for 1 each; rows of weight 0 are not there.
//
// It is nil, with a note, without data columns. It fails for tables without rows
// or with different columns, with ErrWeights, and for negative options. The same
// input gives the same result on any number of processors. NOT PRIVATE.
func CompareCloseness(train, test, synthetic *partition.Table, weight []float64, o ClosenessOptions) (*Closeness, []string, error) {
	fail := func(err error) (*Closeness, []string, error) { return nil, nil, fmt.Errorf("closeness: %w", err) }
	if train == nil {
		return fail(errors.New("the training rows are missing: they are needed"))
	}
	if _, err := checkTables(train, test, nil); err != nil {
		return fail(err)
	}
	weight, err := checkTables(train, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	if o.Queries < 0 || o.Rows < 0 {
		return fail(fmt.Errorf("%d queries and %d rows: choose positive numbers, or 0 for the defaults", o.Queries, o.Rows))
	}
	if o.Queries == 0 {
		o.Queries = 5_000
	}
	if o.Rows == 0 {
		o.Rows = 50_000
	}
	s := newSpace(train.Schema())
	if s.width() == 0 {
		return nil, []string{"closeness: no column holds data"}, nil
	}
	var present []int // synthetic rows that weigh something
	for i, w := range weight {
		if w > 0 {
			present = append(present, i)
		}
	}
	equal := min(train.Len(), test.Len(), o.Rows)
	// Every sample has a stream of its own, so that none hangs on another's size.
	draw := func(stream uint64, from []int, most int) []int {
		return sample(rand.New(rand.NewPCG(o.Seed, stream)), from, most)
	}
	trainRows, testRows := draw(1, count(train.Len()), equal), draw(2, count(test.Len()), equal)
	queries := draw(3, present, o.Queries)
	madeRows := draw(4, present, o.Rows)
	members := max(1, o.Queries/2)
	memberRows, otherRows := draw(5, trainRows, members), draw(6, testRows, members)

	var c Closeness
	var notes []string
	if equal < max(train.Len(), test.Len()) {
		notes = append(notes, fmt.Sprintf("closeness: %d of %d training and %d of %d test rows were drawn at random; %.6g of the synthetic rows equal one of all training rows",
			equal, train.Len(), equal, test.Len(), copies(synthetic, present, weight, train, count(train.Len()), s.columns)))
	}
	if len(queries) < len(present) {
		notes = append(notes, fmt.Sprintf("closeness: distances are of %d synthetic rows drawn at random", len(queries)))
	}
	if len(madeRows) < len(present) {
		notes = append(notes, fmt.Sprintf("closeness: membership was tried with %d synthetic rows drawn at random", len(madeRows)))
	}
	if members < equal {
		notes = append(notes, fmt.Sprintf("closeness: membership was tried for %d training and %d test rows", members, members))
	}

	c.CopiesTrain = copies(synthetic, present, weight, train, trainRows, s.columns)
	c.CopiesTest = copies(synthetic, present, weight, test, testRows, s.columns)
	made := s.points(synthetic, madeRows)
	s.sort(made) // once, so that sums of equal terms are equal in every search
	toTrain := s.closest(s.points(synthetic, queries), s.points(train, trainRows))
	toTest := s.closest(s.points(synthetic, queries), s.points(test, testRows))
	queryWeight := pick(weight, queries)
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
	near := append(s.closest(s.points(train, memberRows), made), s.closest(s.points(test, otherRows), made)...)
	member := make([]bool, len(near))
	for i := range near {
		near[i], member[i] = -near[i], i < len(memberRows)
	}
	if c.MembershipAUROC, err = measure.AUROC(member, near, nil); err != nil {
		return fail(err)
	}
	return &c, notes, nil
}

// sample draws at most so many of the given rows, and keeps their order.
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
