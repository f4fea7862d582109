// Package relabel is a stage after training that gives generated images other labels: those that a linear rule finds
// which real records were asked about. A generator makes images that look like those of a class and often could be
// of another, and a network that learns from them learns its mistakes too; images with right labels teach more, even
// those that do not look right.
//
// The student finds directions among the strokes of generated images (see package strokes): those in which they vary
// most, each scaled to the same variance. So real images vary in all of them about alike, and noise of one size hides
// none. It asks one sum for that rule: the products of all pairs of directions, and the directions by class. The rule
// is ridge regression on the classes: its coefficients are the inverse of the products, plus the size that noise gives
// them in any direction, times the sums by class. All of that is post-processing of the released sum.
//
// Why it is private: whatever an image holds, it adds a vector with a norm of at most 1, and the records of a unit
// share that. Nothing is clipped, and the directions follow from releases. It is one Gaussian event.
package relabel
