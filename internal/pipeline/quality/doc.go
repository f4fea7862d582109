// Package quality is a stage after training that pays for a figure of how far the released rows are from the real ones:
// the share of rows that are in the wrong cell, by the mean total variation distance of columns, and of columns beside
// the label. The figure may be given away with the rows.
//
// The student asks one sum: for every column, and for every column beside the label, how many records are in each cell
// (see [marginals.Counting]). The shares of the synthetic rows are known. All that follows is post-processing of the
// released sum.
//
// Why it is private: whatever a record holds, it adds the weight w of a table to one of the table's cells, for every
// table. So it adds a vector of norm sqrt(sum of w^2), which is the bound that the noise is drawn for, and nothing is
// clipped; the records of a unit share w. It is one Gaussian event. The question follows from the schema, and from no
// row.
//
// Why the figure is no plain distance: of a cell whose difference d was released with noise of deviation s, the
// absolute value is E|d + noise| on average, which is above |d| and s sqrt(2/pi) where d is 0. Over many cells the
// noise alone would look as a large distance. How much of it is noise depends on how the differences are spread: the
// same sum of absolute values comes of a few large ones, or of none. The spread is therefore estimated with them
// (deconvolution, by a mixture of normal distributions of scales that are tried, each with two ends and a tilt, as
// Stephens 2017 does, "False discovery rates: a new deal"): truths are weighed by the likelihood of what was released,
// and differences that agree with it are drawn. Of the drawn distances the middle is the figure, and the interval has
// all but a hundredth at each end. The number of units is one that the release and the class counts agree with. That
// differences add up to 0 in each table is taken into account; that no share is below 0 is not.
//
// Tests count how often the interval covers, over tables whose differences are spread in several ways.
package quality
