// Package measure holds figures that say how similar two samples are, and how well scores rank rows: functions of
// plain numbers, without tables.
//
// Results from real rows are NOT PRIVATE; see package evaluate.
package measure
