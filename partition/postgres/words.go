package postgres

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// dictionary maps texts to cells.
type dictionary struct {
	texts []string
	cells []float64
}

// maxWords bounds the distinct texts of a column.
const maxWords = 1 << 20

// learnWords reads the distinct texts of the columns that are not numbers, and counts problems of any cell.
func (p *Pushed) learnWords(in *session) error {
	s := p.from(nil)
	s.where = "" // cells of other sites are checked, too
	var cells []string
	for i := range p.columns {
		c := &p.columns[i]
		c.words = dictionary{}
		switch c.as {
		case asNumber:
			cells = append(cells, fmt.Sprintf("(%d, %s)", i, c.fault(s)))
		case asText:
			cells = append(cells, fmt.Sprintf("(%d, coalesce(%s, '')%s)", i, c.text(), ` collate "C"`))
		case asUnit:
			cells = append(cells, fmt.Sprintf("(%d, case when %s is null then 'empty' end)", i, c.text()))
		}
	}
	wrong := &tabular.Violations{File: sourceName}
	note := func(c *column, fault *partition.CellFault, times int) {
		at := slices.IndexFunc(wrong.Found, func(v tabular.Violation) bool {
			return v.Column == c.Name && v.Problem == fault.Problem
		})
		if at < 0 {
			at = len(wrong.Found)
			wrong.Found = append(wrong.Found, tabular.Violation{Column: c.Name, Problem: fault.Problem,
				Fix: fault.Fix, SchemaFix: fault.SchemaFix})
		}
		wrong.Found[at].Times += times
	}
	sql := "select v.at, v.what, count(*)" + s.cells(cells) + " group by 1, 2 order by 1, 3 desc, 2"
	err := in.ask("check the cells", sql, s.params, func(row [][]byte) error {
		at, err := whole(row[0])
		times, other := whole(row[2])
		if err != nil || other != nil {
			return errUnexpected
		}
		c, text := &p.columns[at], string(row[1])
		if c.as == asNumber {
			note(c, c.faultOf(text), times)
			return nil
		}
		if c.as == asUnit {
			_, fault := c.ParseUnit("")
			note(c, fault, times)
			return nil
		}
		cell, fault := c.ParseCell(text)
		switch {
		case fault != nil:
			note(c, fault, times)
		case len(c.words.texts) == maxWords:
			return &partition.InputError{File: sourceName, Column: c.Name,
				Problem: fmt.Sprintf("more than %d different texts, too many for sql.pushdown", maxWords),
				Fix:     "cast it to a number, or a time to a date, in the query; or remove sql.pushdown"}
		case text != "":
			c.words.texts, c.words.cells = append(c.words.texts, text), append(c.words.cells, cell)
		}
		return nil
	})
	if err == nil && len(wrong.Found) > 0 {
		err = wrong
	}
	return err
}
