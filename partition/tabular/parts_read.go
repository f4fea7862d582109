package tabular

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/partition"
)

// mostWrongParts bounds how many parts are told of at once.
const mostWrongParts = 10

// readParts reads files as one table, whose site and share are chosen of all rows: equal records are told apart by
// how many came before, in whichever part.
func readParts(s *partition.Schema, name string, parts []string, o Options) (*partition.Table, error) {
	if err := o.check(s); err != nil {
		return nil, &partition.InputError{File: name, Problem: err.Error()}
	}
	columnar := isParquet(parts[0])
	of := o
	of.Site, of.From, of.To, of.ofPart = "", 0, 0, true
	told := map[string]bool{}
	of.Warn = func(warning string) { // parts are odd in the same way
		if o.Warn != nil && !told[warning] {
			o.Warn(warning)
		}
		told[warning] = true
	}
	whole := partition.NewTable(s)
	var weights []float64
	var wrong []error
	for _, path := range parts {
		if len(wrong) == mostWrongParts {
			wrong = append(wrong, errors.New("the other parts were not read; correct these first"))
			break
		}
		if isParquet(path) != columnar {
			return nil, &partition.InputError{File: path, Problem: "CSV and Parquet among the parts of one table",
				Fix: "name one kind by a pattern, such as parts/*.parquet"}
		}
		if archive, _ := isArchive(path); archive {
			return nil, &partition.InputError{File: path, Problem: "a workbook or archive among the parts of a table",
				Fix: "save its rows as CSV"}
		}
		t, err := readFile(s, path, of)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if most := mostRows(len(s.Columns)); columnar && t.Len() > most-whole.Len() {
			return nil, &partition.InputError{File: path,
				Problem: fmt.Sprintf("with it the table has more than %d rows", most),
				Fix:     "divide the parts among several nodes"}
		}
		if whole.Len() > 0 && t.Len() > 0 && (t.Weights() == nil) != (weights == nil) {
			return nil, &partition.InputError{File: path, Column: partition.WeightColumn,
				Problem: "some parts have this column and others have not", Fix: "write all parts alike"}
		}
		for row := range t.Len() {
			whole.Push(t.Cells(row), t.Unit(row))
		}
		weights = append(weights, t.Weights()...)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	if whole.Len() == 0 {
		return nil, &partition.InputError{File: name, Problem: "there is no row in any part",
			Fix: "check that it is the right folder, and that all of it was copied"}
	}
	if weights != nil {
		weighted, err := whole.WithWeights(weights)
		if err != nil {
			return nil, err
		}
		whole = weighted
	}
	return selectRows(whole, name, o)
}
