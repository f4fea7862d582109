// Package relabel is a stage after training that gives generated rows new labels, by a rule that was learned from real
// records. The generator's class is wrong for many rows. A model that trains on them learns these mistakes, so right
// labels make the rows more useful.
//
// For images the student takes the directions in which the strokes of generated images (see package strokes) vary
// most, and scales each to the same variance. Real images then vary about equally in all of them, so noise of one
// size hides none. The student asks one sum: the products of all pairs of directions, and the directions by class.
// The rule is ridge regression on the classes: the inverse of the products, plus the size of the noise on the
// diagonal, times the sums by class.
//
// For tables the rule is a logistic regression on all columns and the squares of numbers (see package labels). The
// student asks for the gradient of all records some times, and takes a step after each release. Labels are drawn with
// the rule's probabilities, whose means are the released class shares.
//
// Why it is private: any image adds a vector of norm at most 1, and any record a gradient that is cut to a norm. The
// records of a unit share that. All else follows from releases. Each question is one Gaussian event of sensitivity 1.
package relabel
