package tabular

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// layout says where the cells of a source's rows belong. Goroutines share it.
type layout struct {
	schema *partition.Schema
	name   string // of the source, for errors
	source Source
	target []int     // source column -> schema column, toNowhere or toWeights
	empty  []float64 // cells of a row before any is read
	// comma is whether a comma may stand before the decimals of a number.
	comma bool
}

const (
	toNowhere = -1 // of a column that nothing reads
	toWeights = -2
)

// part is some rows of a source in a row, and what is wrong with them. One goroutine works on it.
type part struct {
	*layout
	cells   []float64
	units   []string
	weights []float64 // nil where the source has none
	rows    int       // those with violations included
	wrong   tally
}

// add adds a row; line gives the line of a column's cell.
func (p *part) add(texts []string, line func(column int) int) {
	p.rows++
	p.cells = append(p.cells, p.empty...)
	row := p.cells[len(p.cells)-len(p.empty):]
	unit, good := "", true
	for i, text := range texts {
		if fault := p.set(row, &unit, i, text); fault != nil {
			good = false
			p.wrong.add(kind{i, fault.Problem}, p.columnName(i), fault.Fix, p.rows, func() int { return line(i) })
		}
	}
	if p.schema.UnitColumn() >= 0 {
		p.units = append(p.units, unit)
	}
	if !good {
		return
	}
	if fault := p.schema.Settle(row); fault != nil {
		p.refuse(fault, func() int { return line(0) })
	}
}

// short counts a row that has not as many cells as the header; among are the delimiters that were not used.
func (p *part) short(fields []string, among string, line func() int) {
	p.rows++
	fault := &partition.CellFault{Problem: fmt.Sprintf("the row has not the %d cells of the header", len(p.target)),
		Fix: "complete or quote the row's cells"}
	for _, other := range among {
		if len(fields) == 1 && strings.Count(fields[0], string(other)) == len(p.target)-1 {
			fault.Problem = fmt.Sprintf("the row has the delimiter %q, and the header another one", string(other))
			fault.Fix = "write header and rows with one delimiter"
		}
	}
	p.refuse(fault, line)
}

// refuse counts a fault of the whole row that was added last.
func (p *part) refuse(fault *partition.CellFault, line func() int) {
	p.wrong.add(kind{len(p.target), fault.Problem}, "", fault.Fix, p.rows, line)
}

func (p *part) set(row []float64, unit *string, i int, text string) (fault *partition.CellFault) {
	columns := p.schema.Columns
	switch at := p.target[i]; {
	case at == toNowhere:
	case at == toWeights:
		v, fault := partition.ParseNumber(p.number(text))
		if fault != nil {
			fault.Fix = "give every row a finite number in this column" // the schema does not know it
		}
		p.weights = append(p.weights, v)
		return fault
	case at == p.schema.UnitColumn():
		if columns[at].Number() {
			text = p.number(text)
		}
		*unit, fault = columns[at].ParseUnit(text)
	case columns[at].Number():
		if row[at], fault = columns[at].ParseCell(p.number(text)); fault != nil && p.decimalComma(text) {
			fault.Problem = "a number with a comma"
			fault.Fix = `write csv: {decimal: ","} in the schema where the comma stands before decimals; remove ` +
				"separators of thousands"
		}
	default:
		row[at], fault = columns[at].ParseCell(text)
	}
	return fault
}

// number is a number's text with a point where it has one comma and no point, if the file may have such.
func (p *part) number(text string) string {
	if !p.comma || strings.IndexByte(text, '.') >= 0 || strings.Count(text, ",") != 1 {
		return text
	}
	return strings.Replace(text, ",", ".", 1)
}

// decimalComma tells numbers that need csv.decimal.
func (p *part) decimalComma(text string) bool {
	if p.comma || p.source != FromCSV || strings.Count(text, ",") != 1 {
		return false
	}
	_, fault := partition.ParseNumber(strings.Replace(text, ",", ".", 1))
	return fault == nil
}

// take adds the rows of a part, which begin after so many lines, to the table. Where any row so far has a violation the
// table is not needed.
func (b *Builder) take(p *part, lines int) {
	b.wrong.merge(p.wrong, b.row, lines)
	b.row += p.rows
	if len(b.wrong) == 0 {
		b.table.Extend(p.cells, p.units)
		b.weights = append(b.weights, p.weights...)
	}
	p.reset()
}

// reset empties a part that was taken; its memory serves the next rows.
func (p *part) reset() {
	p.cells, p.units, p.weights, p.rows = p.cells[:0], p.units[:0], p.weights[:0], 0
	if len(p.wrong) > 0 {
		p.wrong = tally{} // the builder has the one before
	}
}

// newPart begins rows of the builder's source.
func (b *Builder) newPart() *part { return &part{layout: &b.layout, wrong: tally{}} }

func (l *layout) columnName(i int) string {
	switch at := l.target[i]; {
	case at == toNowhere:
		return fmt.Sprint(i + 1) // which nothing reads, so that nothing can be wrong with it
	case at == toWeights:
		return partition.WeightColumn
	default:
		return l.schema.Columns[at].Name
	}
}
