// Package trees grows regression trees on tables whose columns are sorted into bins: [DepthFirst]
// for single trees, bagging and first-order boosting, [LeafWise] for second-order boosting.
package trees
