package embedding

import "fmt"

// Kind is the kind of a part of the vector.
type Kind string

// The kinds of parts.
const (
	// Ones is one constant number, the part's weight: its sum counts records.
	Ones Kind = "ones"
	// Columns is the place of each column among its cells: knots of a number, categories, and a cell for empty.
	Columns Kind = "columns"
	// Pairs is the place among the cells of pairs of columns.
	Pairs Kind = "pairs"
	// Fourier is cosine and sine of random waves of all features.
	Fourier Kind = "fourier"
	// Patches is cosine and sine of random waves of the small squares of an image, as means over the cells of a grid.
	Patches Kind = "patches"
)

// Part is a group of numbers of the vector.
type Part struct {
	Kind Kind
	// Weight bounds the L2 norm of the part's numbers, for any record.
	Weight float64
	// Bins is the number of knots of a number; an integer with fewer values has one for each. With 2 or less,
	// waves see numbers as if the knots were at equal distances.
	Bins int
	// Count is the number of waves, two numbers each (of patches in each cell), or the number of pairs, chosen by
	// Seed; 0 means all pairs.
	Count int
	// Spread is the inverse length scale of the waves.
	Spread float64
	// Seed draws waves and chooses pairs. It is public.
	Seed uint64
}

// The limits of parts.
const (
	// MaxSize bounds the numbers of all classes, as for a release.
	MaxSize   = 1 << 17
	maxBins   = 1 << 10
	maxWeight = 1e6
	maxSpread = 1e3
)

// check reports what is wrong with a part, and how to fix it.
func (p Part) check() error {
	switch {
	case !(p.Weight > 0 && p.Weight <= maxWeight):
		return fmt.Errorf("weight %v; use a number above 0 and at most %v", p.Weight, float64(maxWeight))
	case (p.Kind == Columns || p.Kind == Pairs) && (p.Bins < 2 || p.Bins > maxBins):
		return fmt.Errorf("%d bins; use 2 to %d", p.Bins, maxBins)
	case p.Kind == Fourier && (p.Bins < 0 || p.Bins > maxBins):
		return fmt.Errorf("%d bins; use 0 to %d", p.Bins, maxBins)
	case p.Count < 0:
		return fmt.Errorf("a count of %d; use 0 or more", p.Count)
	case p.waves() && (p.Count < 1 || p.Count > MaxSize):
		return fmt.Errorf("%d waves; use 1 to %d", p.Count, MaxSize)
	case p.waves() && !(p.Spread > 0 && p.Spread <= maxSpread):
		return fmt.Errorf("spread %v of waves; use a number above 0 and at most %v", p.Spread, float64(maxSpread))
	}
	return nil
}

// waves says that the part has random waves.
func (p Part) waves() bool { return p.Kind == Fourier || p.Kind == Patches }
