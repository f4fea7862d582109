// Package strokes is the question for relabelling images. From its answer a student solves a linear rule that
// distinguishes classes by the strokes of an image.
//
//	d, err := strokes.NewDirections(image, classes, mean, matrix)
//	d.Each(records, n, visit)   // for each image its unit vector of directions
//
// The formula of strokes is public: how strongly brightness rises in eight directions in each cell of a grid, at
// two sizes, and how bright each cell is. A student finds directions among the strokes with images that it
// generated. The nodes' sum holds the products of all pairs of directions over all records, and each direction
// over the records of each class.
package strokes
