// Package quality is a stage after training that pays for a figure: how far the released rows are from the real
// ones. It is the share of rows in the wrong cell, by the mean total variation distance of columns, and of
// columns with the label. The figure may be published with the rows.
//
// The student asks one sum: for every column, and for every column with the label, the number of records in
// each cell (see [marginals.Counting]). The shares of the synthetic rows are known. Everything else is
// post-processing of the released sum.
//
// Why it is private: for every table, a record adds the weight w of the table to one of the table's cells,
// whatever its values are. So it adds a vector of norm sqrt(sum of w^2), which is the bound that the noise is
// drawn for, and nothing is clipped; the records of a unit share w. It is one Gaussian event. The question
// follows from the schema alone.
//
// Why the figure is not a plain distance: suppose a cell's difference d is released with noise of deviation s.
// The mean absolute value is E|d + noise|, which is above |d|, and s sqrt(2/pi) if d is 0. Over many cells the
// noise alone would look like a large distance. How much of it is noise depends on the spread of the
// differences: the same sum of absolute values may come from a few large ones, or from none.
//
// So the spread is estimated too, by deconvolution with a mixture of normal distributions of several scales,
// each with two ends and a tilt (Stephens 2017, "False discovery rates: a new deal"). Truths are weighted by
// the likelihood of the release, and differences that agree with it are drawn. The figure is the median of the
// drawn distances, and the interval leaves out a hundredth at each end. The number of units agrees with the
// release and the class counts. The model knows that differences add up to 0 in each table; it does not know
// that shares are at least 0.
//
// Tests count how often the interval covers the truth, over tables whose differences are spread in several
// ways.
package quality
