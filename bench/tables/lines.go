package main

import "cmp"

const lineDelta = 1e-5

// asLines completes groups that are lines of one table: each has one case, and one figure is
// what its rows are worth, beside how alike they are to real ones where rows says so.
func asLines(pipeline string, worth *measure, lines []group) []group {
	for i := range lines {
		l := &lines[i]
		l.delta, l.pipeline, l.teachers = lineDelta, cmp.Or(l.pipeline, pipeline), max(1, l.teachers)
		l.cases = []runCase{{name: "run"}}
		if l.images {
			l.worth, l.seeds = imagesWorth, 1
		} else if l.worth == nil {
			l.worth = worth
		}
	}
	return lines
}
