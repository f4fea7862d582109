// Package labels is the question from which a student learns to label rows of a table: the sum of the gradients of
// a logistic regression of the label, over all records.
//
//	s, err := labels.NewScaling(features, numbers, mean, scale)
//	v := s.Vectors()
//	z := v.Of(record)              // a unit vector: the columns, and the squares of numbers
//	r := labels.Rule{...}
//	r.Shares(p, z)                 // the probability of each class
//
// The student asks the sum some times, takes a step after each release, and so descends the loss of all records. It
// needs no sum of pairs of columns, whose noise grows with their number.
package labels
