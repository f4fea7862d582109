// Package measure holds the figures that say how alike two samples are, and how well
// scores rank rows: functions of plain numbers that know no table.
//
// What is computed from real rows is NOT PRIVATE; see package evaluate.
package measure
