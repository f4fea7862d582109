package parquet

import (
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is the kind of a column's cells.
type Kind int

// The kinds of columns. Columns of kind Other cannot be read; Column.What says what they are.
const (
	Other  Kind = iota
	Truth       // 0 and 1
	Whole       // integers
	Number      // numbers that may have a fraction
	Text        // UTF-8 according to the file; not checked
	Time        // a date, a time of day or both
	Null        // every cell is empty
)

// Column is a column of the file, perhaps a group of nested columns.
type Column struct {
	Name string
	Kind Kind
	What string // for Other: "a list or another nested column"

	leaf     int // index of its first column of values
	leaves   int
	stored   pq.Kind
	width    int // bytes of a stored value, 0 for bits or variable length
	text     func(pq.Value) (string, error)
	nullable bool                   // a page has null markers
	unsigned bool                   // whole numbers are stored without a sign
	number   func(pq.Value) float64 // converts a stored number to the number of its text; nil for other columns
}

// maxScale bounds the digits after a decimal's point; databases allow less than 100.
const maxScale = 1000

// columns describes the children of the root.
func columns(f *pq.File) ([]Column, error) {
	elements := f.Metadata().Schema
	at, leaf := 1, 0
	var all []Column
	for _, node := range f.Root().Columns() {
		c := Column{Name: node.Name(), leaf: leaf}
		if e := &elements[at]; node.Leaf() {
			c.describe(node, e)
			c.leaves, c.nullable = 1, node.Optional()
			if v := e.Type.V; v < format.Boolean || v > format.FixedLenByteArray {
				return nil, damaged("column %d has an unknown type", len(all)+1)
			}
		} else {
			c.What = "a list or another nested column"
			c.leaves = countLeaves(node)
		}
		leaf += c.leaves
		at = after(elements, at)
		all = append(all, c)
	}
	return all, nil
}

// after is the index after an element and everything within it.
func after(elements []format.SchemaElement, at int) int {
	for open := 1; open > 0; at++ {
		open += int(elements[at].NumChildren.V) - 1
	}
	return at
}

func countLeaves(node *pq.Column) (n int) {
	if node.Leaf() {
		return 1
	}
	for _, child := range node.Columns() {
		n += countLeaves(child)
	}
	return n
}

// describe sets a column's kind and how its values become texts.
func (c *Column) describe(node *pq.Column, e *format.SchemaElement) {
	t := node.Type()
	var logical any
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	_, null := logical.(*format.NullType)
	switch {
	case node.Repeated():
		c.What = "a repeated column"
		return
	case null:
		c.Kind = Null
		return
	case t.Kind() != pq.Kind(e.Type.V):
		c.What = "a column of two types that contradict each other"
		return
	}
	c.stored = t.Kind()
	switch c.stored {
	case pq.Int32, pq.Float:
		c.width = 4
	case pq.Int64, pq.Double:
		c.width = 8
	case pq.FixedLenByteArray:
		c.width = t.Length()
	}
	switch l := logical.(type) {
	case nil:
		c.bare()
	case *format.StringType, *format.EnumType, *format.JsonType:
		c.Kind, c.text = Text, func(v pq.Value) (string, error) { return string(v.ByteArray()), nil }
	case *format.UUIDType:
		c.Kind, c.text = Text, uuidText
	case *format.IntType:
		c.Kind, c.text, c.number = Whole, wholeText(c.stored, l.IsSigned), wholeNumber(c.stored, l.IsSigned)
		c.unsigned = !l.IsSigned
	case *format.DecimalType:
		if l.Scale < 0 || l.Scale > maxScale {
			c.What = "a decimal number of more places than are read"
			return
		}
		c.Kind, c.text = Number, decimalText(c.stored, int(l.Scale))
		if l.Scale == 0 {
			c.Kind = Whole
		}
	case *format.DateType:
		c.Kind, c.text = Time, dateText
	case *format.TimeType:
		c.clock(timeOfDay, l.Unit)
	case *format.TimestampType:
		layout := moment
		if l.IsAdjustedToUTC {
			layout = momentUTC
		}
		c.clock(layout, l.Unit)
	case *format.BsonType:
		c.What = "BSON"
	default:
		c.What = "an unsupported type"
	}
}

// bare describes a column whose stored values are the cells.
func (c *Column) bare() {
	switch c.stored {
	case pq.Boolean:
		c.Kind, c.text = Truth, truthText
	case pq.Int32, pq.Int64:
		c.Kind, c.text, c.number = Whole, wholeText(c.stored, true), wholeNumber(c.stored, true)
	case pq.Float:
		c.Kind, c.text = Number, floatText
	case pq.Double:
		c.Kind, c.text, c.number = Number, doubleText, pq.Value.Double
	case pq.ByteArray:
		c.What = "bytes that are not said to be text"
	case pq.Int96:
		c.What = "a time of 96 bits"
	default:
		c.What = "bytes of a fixed length"
	}
}

// clock describes times that are counted in a unit.
func (c *Column) clock(layout string, unit format.TimeUnit) {
	if unit.Value == nil {
		c.What = "a time in an unknown unit"
		return
	}
	c.Kind, c.text = Time, clockText(c.stored, layout, unit.Value.Duration())
}
