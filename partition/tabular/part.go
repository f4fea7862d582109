package tabular

import (
	"fmt"
	"math"
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
	// plain are the schema's columns that texts are read for as they are, by source column; nil for the others.
	plain []*partition.Column
	// comma is whether a comma may stand before the decimals of a number.
	comma bool
}

const (
	toNowhere = -1 // of a column that nothing reads
	toWeights = -2
)

// plainly says whether a comma may stand before decimals, and which columns need nothing but their texts.
func (l *layout) plainly(comma bool) {
	l.comma, l.plain = comma, make([]*partition.Column, len(l.target))
	for i, at := range l.target {
		if at < 0 || at == l.schema.UnitColumn() || comma && l.schema.Columns[at].Number() {
			continue
		}
		l.plain[i] = &l.schema.Columns[at]
	}
}

// part is some rows of a source in a row, and what is wrong with them. One goroutine works on it.
type part struct {
	*layout
	cells    []float64
	units    []string
	weights  []float64 // nil where the source has none
	rows     int       // those with violations included
	wrong    tally
	decimals [3]tally
	// numbers are the cells of the next row that are stored as numbers; infinite where the text says what they are.
	stored  []bool
	numbers []float64
	// entries are those of dictionaries that the texts of the next row come from, -1 for none, and known the cells that
	// they stand for, by source column and entry: infinite for none yet.
	entries []int32
	known   [][]float64
}

// Numbers of a column with decimals, where a comma may stand before them: a point does, a comma does, and what may
// be a comma between thousands as well, such as 12,500.
const (
	behindPoint = iota
	behindComma
	behindEither
)

// add adds a row; faults are what the source says of its cells, and line gives the line of a column's cell.
func (p *part) add(texts []string, faults map[int]*partition.CellFault, line func(column int) int) {
	p.rows++
	p.cells = append(p.cells, p.empty...)
	row := p.cells[len(p.cells)-len(p.empty):]
	unit, good := "", true
	for i, text := range texts {
		var fault *partition.CellFault
		if p.stored != nil && p.stored[i] && math.Abs(p.numbers[i]) <= math.MaxFloat64 {
			row[p.target[i]], fault = p.plain[i].NumberCell(p.numbers[i] + 0) // no -0
		} else if p.entries != nil && p.entries[i] >= 0 && p.plain[i] != nil {
			if row[p.target[i]], fault = p.knownCell(i, text); fault != nil {
				fault = p.set(row, &unit, i, text)
			}
		} else if at := p.plain[i]; at != nil && faults == nil { // most cells of most files
			if row[p.target[i]], fault = at.ParseCell(text); fault != nil {
				fault = p.set(row, &unit, i, text)
			}
		} else if fault = faults[i]; fault == nil {
			fault = p.set(row, &unit, i, text)
		}
		if fault != nil {
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
		if text, fault = p.number(i, text, false); fault == nil {
			var v float64
			v, fault = partition.ParseNumber(text)
			p.weights = append(p.weights, v)
		}
		if fault != nil {
			fault.Fix = "give every row a finite number in this column" // the schema does not know it
		}
	case p.comma && columns[at].Number():
		if text, fault = p.number(i, text, columns[at].Kind != partition.Continuous); fault != nil {
			return fault
		}
		fallthrough
	default:
		if at == p.schema.UnitColumn() {
			*unit, fault = columns[at].ParseUnit(text)
			return fault
		}
		if row[at], fault = columns[at].ParseCell(text); fault != nil && p.decimalComma(&columns[at], text) {
			fault.Problem = "a number with a comma"
			fault.Fix = `write csv: {decimal: ","} in the schema where the comma stands before decimals; remove ` +
				"separators of thousands"
		}
	}
	return fault
}

// number is a number's text with a point before its decimals, if the file may have commas there. What may separate
// thousands is not read: 1,000 is one or a thousand.
func (p *part) number(i int, text string, whole bool) (string, *partition.CellFault) {
	at := strings.IndexAny(text, ".,")
	if !p.comma || at < 0 || strings.Count(text, ",")+strings.Count(text, ".") > 1 {
		return text, nil
	}
	if digits := text[at+1:]; whole && len(digits) == 3 && strings.Trim(digits, "0123456789") == "" {
		return "", &partition.CellFault{Problem: "what may be a separator of thousands in a whole number",
			Fix: "write whole numbers in digits alone"}
	}
	which := behindPoint
	if text[at] == ',' {
		which = behindComma
		if before := strings.TrimLeft(text[:at], "+-"); len(text)-at == 4 && len(before) > 0 && len(before) <= 3 &&
			before[0] != '0' {
			which = behindEither
		}
		text = text[:at] + "." + text[at+1:]
	}
	p.decimals[which].add(kind{column: i}, p.columnName(i), "", p.rows, func() int { return 0 })
	return text, nil
}

// decimalComma tells numbers that need csv.decimal.
func (p *part) decimalComma(c *partition.Column, text string) bool {
	if p.comma || !c.Number() || p.source != FromCSV || strings.Count(text, ",") != 1 {
		return false
	}
	_, fault := partition.ParseNumber(strings.Replace(text, ",", ".", 1))
	return fault == nil
}

// take adds the rows of a part, which begin after so many lines, to the table.
func (b *Builder) take(p *part, lines int) {
	if b.count(p, lines) {
		b.table.Extend(p.cells, p.units)
		b.weights = append(b.weights, p.weights...)
	}
	p.reset()
}

// count counts the rows of a part and what is wrong with them. Where any row so far has a violation the table is not
// needed.
func (b *Builder) count(p *part, lines int) (needed bool) {
	b.wrong.merge(p.wrong, b.row, lines)
	for i := range b.decimals {
		b.decimals[i].merge(p.decimals[i], b.row, lines)
	}
	b.row += p.rows
	return len(b.wrong) == 0
}

// reset empties a part that was taken; its memory serves the next rows.
func (p *part) reset() {
	p.cells, p.units, p.weights, p.rows = p.cells[:0], p.units[:0], p.weights[:0], 0
	if len(p.wrong) > 0 {
		p.wrong = tally{} // the builder has the one before
	}
	for i := range p.decimals {
		if len(p.decimals[i]) > 0 {
			p.decimals[i] = tally{}
		}
	}
}

// newPart begins rows of the builder's source.
func (b *Builder) newPart() *part {
	return &part{layout: &b.layout, wrong: tally{}, decimals: newDecimals()}
}

func newDecimals() [3]tally { return [3]tally{{}, {}, {}} }

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
