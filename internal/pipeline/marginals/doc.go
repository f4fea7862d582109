// Package marginals learns a table from three noisy sums: how many records are in each cell of every
// column, then of every pair of columns in a few large cells, and then of the pairs that say most
// beyond what the others do, in small cells. A graphical model (package tree) is fitted to all of them.
// Rows are drawn from the model.
//
// Where there are too many pairs the second sum has signs of numbers beside the label, and the third
// those of all pairs of columns: whether values are in the upper half. The model's columns hang on a
// hidden one then, by the factors that stand out of the correlations.
//
// Why it is private: in each sum a record adds the weight w of a table to one of the table's cells,
// or takes it off where columns are signs, for every table. So it adds a vector of norm
// sqrt(sum of w^2), whatever it holds, and nothing is clipped. The k records of a unit share w, in
// whole parts that add up to it: w/k and a rest. So the unit adds w to the table's cells together, or
// less where signs differ, and a vector that is no longer than one record's.
// With it or without it the sum moves by at most that norm, which is the bound that the noise is
// drawn for: one Gaussian event for each sum. What a sum asks for follows from what those
// before it released, and all that comes after them is post-processing.
//
// Sources: McKenna, Sheldon, Miklau, "Graphical-model based estimation and inference for
// differential privacy", 2019; the same with Mullins, "AIM", 2022.
package marginals
