// Package strokes is the question behind new labels for images. Its answer holds what a student needs to solve a linear
// rule that tells classes apart by the strokes of an image.
//
//	d, err := strokes.NewDirections(image, classes, mean, matrix)
//	d.Each(records, n, visit)   // for each image its unit vector of directions
//
// The formula of strokes is public: how strongly brightness rises in eight directions in each cell of a grid, at two
// sizes, and how bright each cell is. A student finds directions among them with images that it generated. The nodes'
// sum has the products of all pairs of directions over all records, and each direction over the records of each class.
package strokes
