package tabular

import (
	"encoding/csv"
	"errors"
	"io"

	"github.com/conclave-dp/conclave/partition"
)

// CSVProblems reads a file as [ReadCSV] does and goes on after what is wrong with a row,
// for who wants to fix all of it at once. It returns at most so many *InputErrors; what
// follows broken quotes, or a broken header, cannot be told.
func CSVProblems(s *partition.Schema, path string, o Options, most int) []error {
	f, err := open(path)
	if err != nil {
		return []error{err}
	}
	defer f.Close()
	d, err := newCSVDecoder(s, f, path, o)
	if err != nil {
		return []error{err}
	}
	var problems []error
	for len(problems) < most {
		record, err := d.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		d.rows.row++
		if err != nil {
			problems = append(problems, d.readError(err))
			if !errors.Is(err, csv.ErrFieldCount) {
				break
			}
			continue
		}
		cells := true // are all as the schema has them
		for i, text := range record {
			if fault := d.rows.set(i, text); fault != nil {
				cells = false
				bad := d.rows.fail(d.rows.columnName(i), fault.Problem, fault.Fix)
				bad.Line, _ = d.csv.FieldPos(i)
				problems = append(problems, bad)
			}
		}
		if fault := d.rows.schema.Settle(d.rows.cells); cells && fault != nil {
			bad := d.rows.fail("", fault.Problem, fault.Fix)
			bad.Line, _ = d.csv.FieldPos(0)
			problems = append(problems, bad)
		}
	}
	return problems[:min(len(problems), most)]
}
