package question

// Shape is the form of an answer, and the largest contribution of one privacy unit or teacher. It follows from the
// question and from public facts. One of its fields is set.
type Shape struct {
	Votes *Histogram
	Sum   *Vector
}

// Histogram is the shape of votes: each teacher names one class for each query.
type Histogram struct{ Queries, Classes int }

// Vector is the shape of a sum of integer vectors.
type Vector struct {
	Entries int
	// Bound is the largest norm, in whole steps, of one contributor's vector.
	Bound int64
	Norm  Norm
	// Blocks holds the lengths of the parts of the vector, if Bound applies to the L2 norm of each part
	// separately; nil for a single part. Such a vector has Norm Each.
	Blocks []int
	// Counts says that no contributor adds less than 0 to an entry.
	Counts bool
	// Per is the contributor of a vector.
	Per Contributor
	// Rate is the probability that a contributor is in the sum, 1 if all are.
	Rate float64
}

// Contributor is the party that contributes a vector to a sum.
type Contributor int

const (
	// PerUnit sums add one vector for each privacy unit: one more unit moves them by Bound.
	PerUnit Contributor = iota
	// PerTeacher sums add one vector for each teacher. A unit belongs to one teacher and may change its whole
	// vector: one more unit moves the sum by twice Bound.
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
