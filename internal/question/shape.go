package question

// Shape is the form of an answer, and how much of it one privacy unit or teacher can make.
// It follows from the question and from what is public. One of its fields is set.
type Shape struct {
	Votes *Histogram
	Sum   *Vector
}

// Histogram is the shape of votes: each teacher names one class for each query.
type Histogram struct{ Queries, Classes int }

// Vector is the shape of a sum of vectors of whole numbers.
type Vector struct {
	Entries int
	// Bound is the largest L2 norm, in whole steps, of the vector that one contributor adds.
	Bound int64
	// Blocks are the lengths of the parts of the vector for each of which Bound holds by
	// itself; nil for one of all entries.
	Blocks []int
	// Per is who contributes a vector.
	Per Contributor
	// Rate is the probability that a contributor is in the sum, 1 where all are.
	Rate float64
}

// Contributor is who contributes a vector to a sum.
type Contributor int

const (
	// PerUnit sums add a vector of each privacy unit: one unit more moves them by Bound.
	PerUnit Contributor = iota
	// PerTeacher sums add a vector of each teacher. A unit belongs to one teacher, whose
	// vector it may change altogether: one unit more moves them by twice Bound.
	PerTeacher
)
