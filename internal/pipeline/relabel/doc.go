// Package relabel is a stage after training that gives generated images new labels, by a linear rule that was
// learned from real records. The generator's class is wrong for many of its images. A network that trains on
// them learns these mistakes, so right labels make the images more useful.
//
// The student takes the directions in which the strokes of generated images (see package strokes) vary most,
// and scales each to the same variance. Real images then vary about equally in all of them, so noise of one
// size hides none. The student asks one sum: the products of all pairs of directions, and the directions by
// class. The rule is ridge regression on the classes: the inverse of the products, plus the size of the noise
// on the diagonal, times the sums by class. All of this is post-processing of the released sum.
//
// Why it is private: any image adds a vector of norm at most 1, and the records of a unit share that. Nothing
// is clipped, and the directions follow from releases. The sum is one Gaussian event of sensitivity 1.
package relabel
