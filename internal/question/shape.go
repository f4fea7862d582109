package question

// Shape is the form of an answer, and the most that one privacy unit or teacher can contribute. It follows from the
// question and from public facts. One of its fields is set.
type Shape struct {
	Votes *Histogram
	Sum   *Vector
}

// Histogram is the shape of votes: each teacher names one class for each query.
type Histogram struct{ Queries, Classes int }

// Vector is the shape of a sum of vectors of whole numbers.
type Vector struct {
	Entries int
	// Bound is the largest norm, in whole steps, of the vector that one contributor adds.
	Bound int64
	Norm  Norm
	// Blocks are the lengths of the parts of the vector for each of which Bound holds by
	// itself as an L2 norm; nil for one of all entries. The Norm of such a vector is Each.
	Blocks []int
	// Counts says that no contributor adds less than 0 to an entry.
	Counts bool
	// Per is the contributor of a vector.
	Per Contributor
	// Rate is the probability that a contributor is in the sum, 1 where all are.
	Rate float64
}

// Contributor is the party that contributes a vector to a sum.
type Contributor int

const (
	// PerUnit sums add a vector of each privacy unit: one unit more moves them by Bound.
	PerUnit Contributor = iota
	// PerTeacher sums add a vector of each teacher. A unit belongs to one teacher, whose
	// vector it may change altogether: one unit more moves them by twice Bound.
	PerTeacher
)

// Norm is the norm of a contributor's vector.
type Norm int

const (
	// L2 is the square root of the sum of squares.
	L2 Norm = iota
	// L1 is the sum of absolute values.
	L1
	// Each is the largest absolute value.
	Each
)
