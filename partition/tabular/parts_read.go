package tabular

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/partition"
)

// mostWrongParts bounds the number of parts reported at once.
const mostWrongParts = 10

// WrongParts is the error of a table in parts: what is wrong, by part.
type WrongParts struct {
	// Rows is the number of rows read from all parts.
	Rows int
	// Parts is the number of parts of the table. Unread is the number that were not read because many earlier ones
	// had errors.
	Parts, Unread int
	// Wrong holds *InputError and *Violations, which name their part.
	Wrong []error
}

// Error joins the errors of the parts.
func (w *WrongParts) Error() string {
	wrong := w.Wrong
	if w.Unread > 0 {
		wrong = append(slices.Clip(wrong), errors.New("the other parts were not read; fix these first"))
	}
	return errors.Join(wrong...).Error()
}

// Unwrap returns the errors of the parts.
func (w *WrongParts) Unwrap() []error { return w.Wrong }

// add counts the error of a part, and the rows that were read before it.
func (w *WrongParts) add(err error) {
	var found *Violations
	if errors.As(err, &found) {
		w.Rows += found.Rows
	}
	w.Wrong = append(w.Wrong, err)
}

// readParts reads files as one table, and selects site and share among all its rows: equal records are
// distinguished by how many came before, in any part.
func readParts(s *partition.Schema, name string, parts []string, o Options) (*partition.Table, error) {
	if err := o.check(s); err != nil {
		return nil, &partition.InputError{File: name, Problem: err.Error()}
	}
	columnar := isParquet(parts[0])
	of := o
	of.Site, of.From, of.To, of.ofPart = "", 0, 0, true
	told := map[string]bool{}
	of.Warn = func(warning string) { // parts are unusual in the same way
		if o.Warn != nil && !told[warning] {
			o.Warn(warning)
		}
		told[warning] = true
	}
	whole := partition.NewTable(s)
	var weights []float64
	wrong := &WrongParts{Parts: len(parts)}
	for i, path := range parts {
		if len(wrong.Wrong) == mostWrongParts {
			wrong.Unread = len(parts) - i
			break
		}
		t, err := readPart(s, path, columnar, of)
		if err != nil {
			wrong.add(err)
			continue
		}
		wrong.Rows += t.Len()
		if most := mostRows(len(s.Columns)); columnar && t.Len() > most-whole.Len() {
			return nil, &partition.InputError{File: path,
				Problem: fmt.Sprintf("with this part the table has more than %d rows", most),
				Fix:     "divide the parts among several nodes"}
		}
		if whole.Len() > 0 && t.Len() > 0 && (t.Weights() == nil) != (weights == nil) {
			wrong.add(&partition.InputError{File: path, Column: partition.WeightColumn,
				Problem: "only some parts have this column", Fix: "write all parts alike"})
			continue
		}
		for row := range t.Len() {
			whole.Push(t.Cells(row), t.Unit(row))
		}
		weights = append(weights, t.Weights()...)
	}
	if len(wrong.Wrong) > 0 {
		return nil, wrong
	}
	if whole.Len() == 0 {
		return nil, errNoRows(name)
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

// readPart reads one file of a table; columnar says whether the first part is Parquet.
func readPart(s *partition.Schema, path string, columnar bool, o Options) (*partition.Table, error) {
	if err := checkPart(path, columnar); err != nil {
		return nil, err
	}
	return readFile(s, path, o)
}

// checkPart refuses a file of another kind than the first part.
func checkPart(path string, columnar bool) error {
	if isParquet(path) != columnar {
		return &partition.InputError{File: path, Problem: "the parts of the table are CSV and Parquet",
			Fix: "select one kind with a pattern, such as parts/*.parquet"}
	}
	if archive, _ := isArchive(path); archive {
		return &partition.InputError{File: path, Problem: "a workbook or archive among the parts of a table",
			Fix: "save its rows as CSV"}
	}
	return nil
}
