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
	empty  []float64 // cells of a row before it is read
	// plain holds, by source column, the schema's columns that are read from texts unchanged; nil for the others.
	plain []*partition.Column
	// comma reports whether a comma may precede the decimals of a number.
	comma bool
}

const (
	toNowhere = -1 // for a column that nothing reads
	toWeights = -2
)

// plainly sets whether a comma may precede decimals, and which columns need only their texts.
func (l *layout) plainly(comma bool) {
	l.comma, l.plain = comma, make([]*partition.Column, len(l.target))
	for i, at := range l.target {
		if at < 0 || at == l.schema.UnitColumn() || comma && l.schema.Columns[at].Number() {
			continue
		}
		l.plain[i] = &l.schema.Columns[at]
	}
}

// part is some consecutive rows of a source, and what is wrong with them. One goroutine works on it.
type part struct {
	*layout
	cells    []float64
	units    []string
	weights  []float64 // nil if the source has none
	rows     int       // including those with violations
	wrong    tally
	decimals [3]tally
	// numbers are the cells of the next row that are stored as numbers; infinite if the text has the value.
	stored  []bool
	numbers []float64
	// entries are the dictionary entries of the texts in the next row, -1 for none. known holds the cells of
	// entries, by source column; infinite if not known yet.
	entries []int32
	known   [][]float64
}

// Formats of numbers in a column with decimals, if commas may precede them: with a point, with a comma, and with a
// comma that may also separate thousands, such as 12,500.
const (
	behindPoint = iota
	behindComma
	behindEither
)

// add adds a row. faults are what the source reports about its cells, and line returns the line of a column's
// cell.
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
			p.wrong.add(i, p.columnName(i), fault, p.rows, func() int { return line(i) })
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

// short counts a row with fewer or more cells than the header; among are the delimiters that were not used.
func (p *part) short(fields []string, among string, line func() int) {
	p.rows++
	fault := &partition.CellFault{Problem: fmt.Sprintf("the row does not have the %d cells of the "+
		"header", len(p.target)),
		Fix: "complete or quote the row's cells"}
	for _, other := range among {
		if len(fields) == 1 && strings.Count(fields[0], string(other)) == len(p.target)-1 {
			fault.Problem = fmt.Sprintf("the row has the delimiter %q, but the header has another", string(other))
			fault.Fix = "use the same delimiter in header and rows"
		}
	}
	p.refuse(fault, line)
}

// refuse counts a fault of the whole row that was added last.
func (p *part) refuse(fault *partition.CellFault, line func() int) {
	p.wrong.add(len(p.target), "", fault, p.rows, line)
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
			// The schema does not know this column.
			fault.Fix, fault.SchemaFix = "give every row a finite number in this column", ""
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
			fault.Fix = "remove thousands separators"
			fault.SchemaFix = `write csv: {decimal: ","} in the schema if the comma is a decimal sign`
		}
	}
	return fault
}

// number returns a number's text with a decimal point, if the file may have decimal commas. It refuses what may be
// a thousands separator: 1,000 is one or a thousand.
func (p *part) number(i int, text string, whole bool) (string, *partition.CellFault) {
	at := strings.IndexAny(text, ".,")
	if !p.comma || at < 0 || strings.Count(text, ",")+strings.Count(text, ".") > 1 {
		return text, nil
	}
	if digits := text[at+1:]; whole && len(digits) == 3 && strings.Trim(digits, "0123456789") == "" {
		return "", &partition.CellFault{Problem: "what may be a thousands separator in a whole number",
			Fix: "write whole numbers only with digits"}
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
	p.decimals[which].add(i, p.columnName(i), &partition.CellFault{}, p.rows, func() int { return 0 })
	return text, nil
}

// decimalComma reports numbers that need csv.decimal.
func (p *part) decimalComma(c *partition.Column, text string) bool {
	if p.comma || !c.Number() || p.source != FromCSV || strings.Count(text, ",") != 1 {
		return false
	}
	_, fault := partition.ParseNumber(strings.Replace(text, ",", ".", 1))
	return fault == nil
}

// take adds the rows of a part, which start after the given number of lines, to the table.
func (b *Builder) take(p *part, lines int) {
	if b.count(p, lines) {
		b.table.Extend(p.cells, p.units)
		b.weights = append(b.weights, p.weights...)
	}
	p.reset()
}

// count counts the rows of a part and what is wrong with them. Once any row has a violation, the table is not
// needed.
func (b *Builder) count(p *part, lines int) (needed bool) {
	b.wrong.merge(p.wrong, b.row, lines)
	for i := range b.decimals {
		b.decimals[i].merge(p.decimals[i], b.row, lines)
	}
	b.row += p.rows
	return len(b.wrong) == 0
}

// reset empties a part that was taken, and reuses its memory.
func (p *part) reset() {
	p.cells, p.units, p.weights, p.rows = p.cells[:0], p.units[:0], p.weights[:0], 0
	if len(p.wrong) > 0 {
		p.wrong = tally{} // the builder has the previous one
	}
	for i := range p.decimals {
		if len(p.decimals[i]) > 0 {
			p.decimals[i] = tally{}
		}
	}
}

// newPart starts rows of the builder's source.
func (b *Builder) newPart() *part {
	return &part{layout: &b.layout, wrong: tally{}, decimals: newDecimals()}
}

func newDecimals() [3]tally { return [3]tally{{}, {}, {}} }

func (l *layout) columnName(i int) string {
	switch at := l.target[i]; {
	case at == toNowhere:
		return fmt.Sprint(i + 1) // nothing reads it, so nothing can be wrong with it
	case at == toWeights:
		return partition.WeightColumn
	default:
		return l.schema.Columns[at].Name
	}
}
