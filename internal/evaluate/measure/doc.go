// Package measure has functions of plain numbers that measure how similar two samples are, and how well scores
// rank rows.
//
// Results from real rows are NOT PRIVATE; see package evaluate.
package measure
