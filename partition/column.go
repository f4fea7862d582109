package partition

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Range is the range of a number in the column, which is encoded to [0,1]: clip if the schema has it, else lower and
// upper. For a categorical column it is the range of its cells, 0 to the last category's index.
func (c *Column) Range() (lo, hi float64) {
	switch {
	case c.Clip != nil:
		return c.Clip[0], c.Clip[1]
	case c.Kind == Categorical:
		return 0, float64(len(c.Categories) - 1)
	default:
		return c.Lower, c.Upper
	}
}

// Describe says in a few public words what the column contains, for reports: "integer 50 to 110", "continuous 0 to
// 12, may be empty", "F, M".
func (c *Column) Describe() string {
	var b strings.Builder
	switch {
	case c.spelled != nil:
		b.WriteString(c.spelled.describe(c))
	case c.Kind == Continuous, c.Kind == Integer:
		lo, hi := c.Range()
		fmt.Fprintf(&b, "%s %s to %s", c.Kind, formatNumber(lo), formatNumber(hi))
		if c.Clip != nil {
			b.WriteString(", clipped")
		}
		if c.Scale == Log {
			b.WriteString(", log scale")
		}
	case c.Kind == Binary:
		b.WriteString("0 or 1")
	case c.Kind == Categorical:
		b.WriteString(c.words())
	default:
		b.WriteString("any text")
	}
	if c.Nullable {
		b.WriteString(", may be empty")
	}
	if c.Role != RoleNone {
		fmt.Fprintf(&b, " (%s)", c.Role)
	}
	return b.String()
}

// words names the first categories.
func (c *Column) words() string {
	const most = 8
	words := c.Categories
	if c.Names != nil {
		words = c.Names
	}
	text := strings.Join(words[:min(most, len(words))], ", ")
	if len(words) > most {
		text += fmt.Sprintf(", ... (%d categories)", len(words))
	}
	return text
}

// CellText is the text of a single cell: the empty string for NaN, the category, the start of a date's unit, a whole
// number, or the shortest decimal that parses to the same value. A row of a table may have a different text, see
// [Table.AppendCell].
func (c *Column) CellText(cell float64) string { return string(c.AppendCell(nil, cell)) }

// AppendCell appends the result of CellText.
func (c *Column) AppendCell(b []byte, cell float64) []byte { return c.appendCell(b, cell, noRow) }

func (c *Column) appendCell(b []byte, cell float64, row int) []byte {
	switch {
	case c.Declared() == Identifier:
		return c.spelled.write(c, b, cell, row)
	case math.IsNaN(cell):
		return b
	case c.spelled != nil:
		return c.spelled.write(c, b, cell, row)
	case c.Kind == Categorical:
		if i := int(cell); i >= 0 && i < len(c.Categories) {
			return append(b, c.Categories[i]...)
		}
		return b
	case c.Kind == Integer || c.Kind == Binary:
		return strconv.AppendInt(b, int64(cell), 10)
	default:
		return AppendNumber(b, cell)
	}
}

func formatNumber(v float64) string { return string(AppendNumber(nil, v)) }

// AppendNumber appends the shortest decimal, with an exponent only if the plain form would be long.
func AppendNumber(b []byte, v float64) []byte {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// CellFault is a problem with a cell and its fixes, without the cell's value; see [InputError].
type CellFault struct{ Problem, Fix, SchemaFix string }

// in is the fault as an error about a row, and a column unless its name is empty.
func (f *CellFault) in(row int, column string) *InputError {
	return &InputError{Row: row, Column: column, Problem: f.Problem, Fix: f.Fix, SchemaFix: f.SchemaFix}
}

const (
	fixCell     = "correct the cell"
	fixKind     = "correct the column's kind in the schema"
	setNullable = "set nullable: true in the schema"
)

// ParseCell parses a cell's text, and moves numbers into clip if there is one. It is not for unit columns of kind
// text, which have no cell value.
func (c *Column) ParseCell(text string) (float64, *CellFault) { return c.parseCell(text, false) }

// ParseValue is ParseCell for a value in a constraint or a condition. It refuses a value more precise than a cell: a
// day in a column of months, or a code longer than the schema's prefixes. It does not move numbers and dates into clip,
// so they may lie outside of [Column.Range].
func (c *Column) ParseValue(text string) (float64, *CellFault) { return c.parseCell(text, true) }

func (c *Column) parseCell(text string, exact bool) (float64, *CellFault) {
	// Called for millions of cells, so it compares kinds, which are strings, only in rare cases.
	if text == "" {
		if c.Nullable || c.Declared() == Identifier {
			return math.NaN(), nil
		}
		return 0, &CellFault{"the cell is empty", "fill it", setNullable}
	}
	if c.spelled != nil {
		return c.spelled.read(c, text, exact)
	}
	if c.index != nil { // a categorical column
		i, ok := c.category(text)
		if !ok {
			return 0, &CellFault{"the cell is not one of the schema's categories",
				"correct its spelling (case and spaces count)", "add the category to the schema"}
		}
		return float64(i), nil
	}
	v, fault := ParseNumber(text)
	if fault != nil {
		return 0, &CellFault{fault.Problem + ", expected " + c.expected(), fault.Fix, fault.SchemaFix}
	}
	cell, fault := c.NumberCell(v)
	if fault == nil && exact {
		return v, nil
	}
	return cell, fault
}

// NumberCell is ParseCell for a finite number as stored, in a column with numbers ([Column.Number]).
func (c *Column) NumberCell(v float64) (float64, *CellFault) {
	if v != math.Trunc(v) && (c.Kind == Integer || c.Kind == Binary) {
		return 0, &CellFault{"not a whole number, expected " + c.expected(),
			fixCell, fixKind}
	}
	if c.Clip != nil {
		return min(max(v, c.Clip[0]), c.Clip[1]), nil
	}
	if v < c.Lower || v > c.Upper {
		fix := "add clip: [lo, hi] to the column, to move such values to the edge"
		switch { // a code, date or identifier cannot have them
		case c.Kind == Binary:
			fix = fixKind
		case c.Role == RoleUnit:
			fix = "leave the column's kind out of the schema"
		}
		return 0, &CellFault{"outside the bounds, expected " + c.expected(), fixCell, fix}
	}
	return v, nil
}

// expected says what a number of the column must be.
func (c *Column) expected() string {
	what := "a number"
	switch c.Kind {
	case Binary:
		return "0 or 1"
	case Integer:
		what = "a whole number"
	}
	if c.Clip != nil {
		return what
	}
	return fmt.Sprintf("%s from %s to %s", what, formatNumber(c.Lower), formatNumber(c.Upper))
}

// ParseNumber parses a plain decimal number. It refuses nan, inf and Go's hexadecimal and underscored forms.
func ParseNumber(text string) (float64, *CellFault) {
	if v, ok := shortDecimal(text); ok {
		return v + 0, nil // + 0 turns -0 into the equal 0
	}
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b >= '0' && b <= '9', b == '.', b == '-', b == '+', b == 'e', b == 'E':
		default:
			return 0, notNumber(text)
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, notNumber(text)
	}
	return v + 0, nil
}

// missingWord reports words that tables use for a missing value.
func missingWord(text string) bool {
	switch strings.ToLower(strings.Trim(strings.TrimSpace(text), "+-")) {
	case "nan", "na", "n/a", "null", "none", "?":
		return true
	}
	return false
}

func faultMissing(what string) *CellFault {
	return &CellFault{"not " + what + " but a word for a missing value",
		"leave the cell empty if the column is nullable", setNullable + " first"}
}

func notNumber(text string) *CellFault {
	if missingWord(text) {
		return faultMissing("a number")
	}
	switch strings.ToLower(strings.Trim(strings.TrimSpace(text), "+-")) {
	case "inf", "infinity":
		return &CellFault{"not a finite number", fixCell, ""}
	}
	if strings.TrimSpace(text) != text {
		return &CellFault{"not a number (there are spaces around the cell)", "remove the spaces", ""}
	}
	return &CellFault{"not a finite decimal number", fixCell, fixKind}
}

// ParseUnit checks the text of a unit column and returns its canonical form, so that the identifiers 7 and 7.0 of an
// integer column are the same unit.
func (c *Column) ParseUnit(text string) (string, *CellFault) {
	if text == "" {
		return "", &CellFault{"the privacy unit's identifier is empty",
			"fill it: every record must belong to a unit", ""}
	}
	if c.Kind == Text {
		// Clone, because the cells of a row share their memory. A CSV reader turns \r
		// in quotes into
		// , so a unit is the same in every source.
		return strings.Clone(strings.ReplaceAll(text, "\r\n", "\n")), nil
	}
	cell, fault := c.ParseCell(text)
	if fault != nil {
		return "", fault
	}
	return c.CellText(cell), nil
}

// CompareUnits orders two identifiers of a unit column as [Column.ParseUnit] gives them: text by its bytes, others by
// their cells.
func (c *Column) CompareUnits(a, b string) int {
	if c.Kind == Text {
		return strings.Compare(a, b)
	}
	first, _ := c.ParseCell(a) // which was parsed before
	second, _ := c.ParseCell(b)
	return cmp.Compare(first, second)
}

// MadeUpUnit returns the text of the i-th made-up identifier of a unit column, from 0, in a form that the column
// allows. If the column has fewer identifiers, they repeat.
func (c *Column) MadeUpUnit(i int) string {
	if c.Kind == Text {
		return strconv.Itoa(i + 1)
	}
	lo, hi := c.Range()
	if c.Kind == Continuous {
		return c.CellText(lo + (hi-lo)*math.Mod(float64(i)/(1<<20), 1))
	}
	return c.CellText(lo + math.Mod(float64(i), hi-lo+1))
}

// checkCell checks that a parsed cell is valid in the column.
func (c *Column) checkCell(cell float64) *CellFault {
	if !c.HasCell() {
		if !math.IsNaN(cell) {
			return &CellFault{"a column of units or identifiers has no cell value", "use NaN, with the unit's text", ""}
		}
		return nil
	}
	if math.IsNaN(cell) {
		if !c.Nullable {
			return &CellFault{"the cell is empty", "only a nullable column may hold NaN", ""}
		}
		return nil
	}
	lo, hi := c.Range()
	if cell < lo || cell > hi {
		return &CellFault{"the cell is outside the column's range", "use Encoder.Decode or Column.Range", ""}
	}
	if c.Kind != Continuous && cell != math.Trunc(cell) {
		return &CellFault{"the cell is not a whole number", "round it first", ""}
	}
	return nil
}

// ClassCount is the number of values of a binary or categorical column, 0 for others.
func (c *Column) ClassCount() int {
	switch c.Kind {
	case Binary:
		return 2
	case Categorical:
		return len(c.Categories)
	default:
		return 0
	}
}
