// Package strokes is the question by whose answer images are labelled: what a linear rule that tells
// classes apart by the strokes of an image is solved from.
//
//	d, err := strokes.NewDirections(image, classes, mean, matrix)
//	d.Each(records, n, visit)   // for each image its unit vector of directions
//
// The strokes are public: how strongly brightness rises in eight directions, in each cell of a grid, at
// two sizes, and how bright each cell is. A student finds directions among them by images that it has
// made itself. The nodes' sum has the products of all pairs of directions, over all records, and each
// direction, over the records of each class.
package strokes
