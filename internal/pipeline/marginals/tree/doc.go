// Package tree fits a distribution over the cells of discrete columns to noisy tables of some of them, and
// draws from it.
//
// The distribution is a graphical model: the one with the largest entropy among those with its tables. Its
// cliques form a junction tree, so that every sum over it is exact (Lauritzen and Spiegelhalter 1988). [Build]
// makes the tree for some sets of columns. [Tree.Fit] fits it by mirror descent on the squared errors over
// their variances (McKenna, Sheldon, Miklau 2019). [Tree.Pair] gives the table of any two columns, and
// [Tree.Draw] draws rows.
package tree
