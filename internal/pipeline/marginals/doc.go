// Package marginals learns a table from three noisy sums. The first counts the records in each cell of every
// column, the second those of every pair of columns in a few large cells. The third counts, in small cells, the
// pairs that say most beyond what the others do. A graphical model (package tree) is fitted to all of them.
// Rows are drawn from the model.
//
// If there are too many pairs, the second sum has signs of numbers with the label, and the third has the signs
// of all pairs of columns. A sign tells whether a value is in the upper half. The model's columns then depend
// on a hidden column, through the factors that stand out of the correlations.
//
// Why it is private: in each sum, for every table, a record adds the weight w of the table to one of the
// table's cells, or subtracts it for signs. So it adds a vector of norm sqrt(sum of w^2), whatever its values
// are, and nothing is clipped. The k records of a unit share w, in whole parts that add up to it: w/k and a
// rest. So the absolute values of what the unit adds to a table have a sum of at most w, and its vector is no
// longer than one record's. Adding or removing a unit changes the sum by at most that norm, which is the bound
// that the noise is drawn for: one Gaussian event for each sum. The questions of a sum follow from earlier
// releases, and everything after the sums is post-processing.
//
// Sources: McKenna, Sheldon, Miklau, "Graphical-model based estimation and inference for differential privacy",
// 2019; the same with Mullins, "AIM", 2022.
package marginals
