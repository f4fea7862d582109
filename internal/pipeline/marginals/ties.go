package marginals

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
)

const (
	// points is the number of cells of the hidden column, leastPoints the least number for a class.
	points      = 1024
	leastPoints = 64
	// leastShare is the smallest share of a class's records on one side. Noise may give impossible shares.
	leastShare = 0.01
	// mostUneven is the largest mean of a sign from which correlations are taken: above it they are mostly
	// noise.
	mostUneven = 0.6
)

// ties connect the columns of a wide table through a hidden column, each of whose cells is a class of the label
// and a point among the factors. Given its cell, columns are independent. A column's cells follow from a normal
// number: its mean depends on the point, and its variance is the part that factors do not explain (a Gaussian
// copula). So two columns correlate as their factors say, and each depends on the label as released.
//
// A finite number of points replaces the normal distribution, with the same mean and the same correlations. So
// the model is a tree like any other, and conditions are met exactly.
type ties struct {
	label  int       // its place, -1 for none
	shares []float64 // of the label's cells; one cell without a label
	places []int     // of the tied columns
	// given has the probabilities of a tied column's cells given the label's; loadings has its loading on each
	// factor.
	given    [][][]float64
	loadings [][]float64
	points   []point
}

// point is a cell of the hidden column.
type point struct {
	label int
	at    []float64 // by factor
}

// ties computes the ties of a wide table from the second and third sums, and from the model of columns and
// label that was fitted to the second. It returns nil for other tables.
func (s *student) ties(g grid, records float64, fitted *tree.Tree) *ties {
	if g.signs == nil || s.sums[1] == nil {
		return nil
	}
	t := &ties{label: s.t.labelPlace(), shares: []float64{1}, places: s.t.tied(g.columns)}
	if t.label >= 0 {
		t.shares = fitted.Table([]int{t.label})
	}
	for _, place := range t.places {
		t.given = append(t.given, t.conditional(fitted, place, g.columns[place].n))
	}
	_, contrasts := s.t.contrasts(g.columns, g.signs)
	for _, weight := range []float64{1, outer} {
		of := slices.DeleteFunc(slices.Clone(contrasts), func(c contrast) bool { return c.weight != weight })
		t.contrast(of, s.contrasted(of, records))
	}
	t.loadings = make([][]float64, len(t.places))
	if s.sums[2] != nil {
		t.loadings = s.correlated(t, g, records, fitted)
	}
	t.scatter(rand.New(rand.NewPCG(s.t.Seed, 0x71e5)))
	return t
}

// conditional returns the probabilities of a column's cells given the label's, in a fitted model.
func (t *ties) conditional(fitted *tree.Tree, place, cells int) [][]float64 {
	if t.label < 0 {
		return [][]float64{fitted.Table([]int{place})}
	}
	pair := fitted.Pair(min(place, t.label), max(place, t.label))
	given := make([][]float64, len(t.shares))
	for y := range given {
		given[y] = make([]float64, cells)
		for c := range given[y] {
			at := c*len(t.shares) + y
			if t.label < place {
				at = y*cells + c
			}
			given[y][c] = pair[at]
		}
		normalize(given[y])
	}
	return given
}

// normalize scales numbers to add up to 1. If their sum is not positive, they become equal.
func normalize(p []float64) {
	sum := sumOf(p)
	for i := range p {
		if p[i] /= sum; sum <= 0 {
			p[i] = 1 / float64(len(p))
		}
	}
}

// signSum is the sum of a sign over the records of each class, per record. If the class is a sign, it is the
// sum over all records of the product of both.
type signSum struct {
	of       []float64
	variance float64
}

// contrasted returns the released sums of contrasts.
func (s *student) contrasted(contrasts []contrast, records float64) (all []signSum) {
	question := s.questions[1]
	at := map[[2]int]*table{}
	for i := range question.tables {
		t := &question.tables[i]
		at[[2]int{t.first, t.second}] = t
	}
	for _, c := range contrasts {
		t := at[[2]int{c.first, c.second}]
		sum := signSum{t.counts(s.sums[1]), t.variance(question.bound, s.noise[1]) / (records * records)}
		for i := range sum.of {
			sum.of[i] /= records
		}
		all = append(all, sum)
	}
	return all
}

// contrast changes the probabilities of cells so that signs depend on the label as released. The covariance of
// each sign with a class is shrunk by the share of noise in the squares of all of them (James and Stein 1961).
func (t *ties) contrast(contrasts []contrast, sums []signSum) {
	covariances := make([][]float64, len(t.shares)) // by class
	variance := make([]float64, len(t.shares))
	before := make([]float64, len(contrasts)) // the share of records where the sign is 1
	for i, c := range contrasts {
		of, all := sums[i], t.marginal(slices.Index(t.places, c.place))
		for cell, in := range c.in {
			if in {
				before[i] += all[cell]
			}
		}
		mean := 2*before[i] - 1
		for y, share := range t.shares {
			covariance, v := 0.0, of.variance
			switch {
			case len(of.of) == len(t.shares):
				covariance = of.of[y] - mean*share
			case y == 1: // the product with the sign of the label's second class
				covariance, v = (of.of[0]-mean*(2*share-1))/2, v/4
			default:
				covariance, v = -(of.of[0]-mean*(1-2*share))/2, v/4
			}
			covariances[y], variance[y] = append(covariances[y], covariance), v
		}
	}
	for y, share := range t.shares {
		squares := 0.0
		for _, c := range covariances[y] {
			squares += c * c
		}
		kept := max(0, 1-variance[y]*float64(len(contrasts))/max(squares, math.SmallestNonzeroFloat64))
		for i, c := range contrasts {
			if share <= 0 || before[i] <= 0 || before[i] >= 1 {
				continue
			}
			in := before[i] + kept*covariances[y][i]/share/2
			in = min(max(in, leastShare), 1-leastShare)
			cells := t.given[slices.Index(t.places, c.place)][y]
			for cell := range cells {
				if c.in[cell] {
					cells[cell] *= in / before[i]
				} else {
					cells[cell] *= (1 - in) / (1 - before[i])
				}
			}
			normalize(cells)
		}
	}
}

// marginal returns the probabilities of a tied column's cells.
func (t *ties) marginal(tied int) []float64 {
	all := make([]float64, len(t.given[tied][0]))
	for y, cells := range t.given[tied] {
		for c, p := range cells {
			all[c] += t.shares[y] * p
		}
	}
	return all
}

// correlated finds the loadings of columns from the released signs of their pairs. The correlation that comes
// from the label stays in: it could be removed only with noisy class means, and measurements showed that this
// does more harm than good.
func (s *student) correlated(t *ties, g grid, records float64, fitted *tree.Tree) [][]float64 {
	means := make([]float64, len(t.places))
	var even []int // indices of tied columns
	for i, place := range t.places {
		for cell, p := range fitted.Table([]int{place}) {
			if means[i] -= p; g.signs[place].above[cell] {
				means[i] += 2 * p
			}
		}
		if math.Abs(means[i]) < mostUneven {
			even = append(even, i)
		}
	}
	loadings := make([][]float64, len(t.places))
	if len(even) < 2 {
		return loadings
	}
	question := s.questions[2]
	deviation := s.noise[1] * float64(question.bound) / float64(question.together) / records
	noise, pairs := 0.0, 0
	correlations := mat.NewSymDense(len(even), nil)
	for a, i := range even {
		for b, j := range even[a+1:] {
			scale := math.Sqrt((1 - means[i]*means[i]) * (1 - means[j]*means[j]))
			// The entries before this one are the pairs of all columns before i.
			at := i*(2*len(t.places)-i-1)/2 + j - i - 1
			sign := float64(s.sums[2][at])/float64(question.together)/records - means[i]*means[j]
			correlations.SetSym(a, a+1+b, math.Sin(math.Pi/2*min(max(sign/scale, -1), 1)))
			noise += deviation * deviation / (scale * scale)
			pairs++
		}
	}
	for a, l := range factors(correlations, ofSine(math.Sqrt(noise/float64(pairs)))) {
		loadings[even[a]] = l
	}
	return loadings
}

// ofSine is the deviation of a correlation near 0 that is computed from a sign's noisy correlation. That is the
// deviation of sin(pi/2 x) for a normal x, clipped to -1 and 1, with the given deviation.
func ofSine(deviation float64) float64 {
	const steps = 1000
	square := 2 * normal.Tail(1/deviation)
	for i := range steps {
		x := (float64(i) + 0.5) / steps
		sine := math.Sin(math.Pi / 2 * x)
		square += 2 * sine * sine * normal.Density(x/deviation) / deviation / steps
	}
	return math.Sqrt(square)
}

// scatter makes the points: equally many for each class, each with an opposite one, and uncorrelated.
func (t *ties) scatter(rng *rand.Rand) {
	n := 0
	for _, l := range t.loadings {
		n = max(n, len(l))
	}
	each := max(points/len(t.shares), leastPoints) / 2
	for label := range t.shares {
		at := mat.NewDense(each, max(n, 1), nil)
		for i := range each {
			for k := range max(n, 1) {
				at.Set(i, k, rng.NormFloat64())
			}
		}
		var squares mat.SymDense
		squares.SymOuterK(1/float64(each), at.T())
		var root mat.Cholesky
		var lower mat.TriDense
		if root.Factorize(&squares) {
			root.LTo(&lower)
			// at L^-T has the identity as its mean square.
			var whitened mat.Dense
			if whitened.Solve(&lower, at.T()) == nil {
				at.Copy(whitened.T())
			}
		}
		for i := range each {
			for _, side := range []float64{1, -1} {
				p := point{label: label, at: make([]float64, n)}
				for k := range p.at {
					p.at[k] = side * at.At(i, k)
				}
				t.points = append(t.points, p)
			}
		}
	}
}

// at returns the probabilities of a tied column's cells at a point.
func (t *ties) at(tied int, p point) []float64 {
	cells := t.given[tied][p.label]
	mean, own := 0.0, 1.0
	for k, l := range t.loadings[tied] {
		mean += l * p.at[k]
		own -= l * l
	}
	out := make([]float64, len(cells))
	above, before := 1.0, 1.0 // the share of records in this cell and the later ones, given the label and at the point
	for c, share := range cells {
		above -= share
		after := 0.0
		if c < len(cells)-1 {
			after = normal.Tail((upper(above) - mean) / math.Sqrt(own))
		}
		out[c] = max(0, before-after)
		before = after
	}
	return out
}

// upper is the number that a standard normal variable exceeds with this probability.
func upper(share float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*min(max(share, 0), 1)) }

// hang returns the cliques of a model of columns and label, with the tied columns below the hidden one, which
// comes after all columns.
func (t *ties) hang(cliques []tree.Clique) []tree.Clique {
	hidden := 0
	for _, c := range cliques {
		hidden = max(hidden, slices.Max(c.Columns)+1)
	}
	var out []tree.Clique
	place, withLabel := make([]int, len(cliques)), -1 // places of retained cliques; the first with the label
	for i, c := range cliques {
		if place[i] = -1; slices.ContainsFunc(c.Columns, func(at int) bool { return slices.Contains(t.places, at) }) {
			continue // a tied column, alone or with the label
		}
		has := slices.Contains(c.Columns, t.label)
		if c.Parent >= 0 {
			c.Parent = place[c.Parent]
		}
		if c.Parent < 0 && has {
			c.Parent = withLabel // it shared only the label with a parent that is dropped
		}
		if place[i] = len(out); has && withLabel < 0 {
			withLabel = len(out)
		}
		out = append(out, c)
	}
	weights, each := make([]float64, len(t.points)), float64(len(t.points)/len(t.shares))
	root := tree.Clique{Columns: []int{hidden}, Parent: withLabel, Table: make([]float64, len(t.points))}
	if t.label >= 0 {
		root.Columns, root.Table = []int{t.label, hidden}, make([]float64, len(t.shares)*len(t.points))
	}
	for i, p := range t.points {
		weights[i] = t.shares[p.label] / each
		root.Table[p.label*len(t.points)+i] = weights[i]
	}
	at := len(out)
	out = append(out, root)
	for tied, place := range t.places {
		cells := len(t.given[tied][0])
		c := tree.Clique{Columns: []int{place, hidden}, Parent: at, Table: make([]float64, cells*len(t.points))}
		for i, p := range t.points {
			for cell, share := range t.at(tied, p) {
				c.Table[cell*len(t.points)+i] = weights[i] * share
			}
		}
		out = append(out, c)
	}
	return out
}
