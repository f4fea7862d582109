// Package encode turns rows of a table into numbers that models train on, and back.
//
// Every column except the label, the unit and identifiers becomes one or more features in [0,1]; a numeric label
// (regression) is a feature, too. A number is one feature, a binary column one, a categorical column one per
// category. A nullable number or binary column has one more feature, 1 for an empty cell; its value is then one half.
// A nullable categorical column has one more category for empty cells. Decoding clamps numbers to their range, rounds
// integers, and drops decimals that a float32 feature cannot carry, so a value with few decimals is restored exactly.
// A column with more than 2^23 whole values, such as the seconds of a year, can be off by one or two steps for each
// 2^24 of them.
package encode

import (
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/partition"
)

// HeadKind says how a generator must produce the features of a head.
type HeadKind string

// The kinds of heads.
const (
	HeadNumber   HeadKind = "number"   // one feature in [0,1]
	HeadBinary   HeadKind = "binary"   // one feature, 0 or 1
	HeadCategory HeadKind = "category" // one feature per category, one of them 1
	HeadMissing  HeadKind = "missing"  // one feature, 1 if the column's cell is empty
)

// Head is a group of adjacent features of one column.
type Head struct {
	Column int // index in Schema.Columns
	Kind   HeadKind
	Offset int // index of the first feature
	Width  int // of a nullable category: its categories plus a last one for empty cells
}

// emptyValue is a number's feature if the cell is empty: the middle of the range, which is public and favours neither
// side.
const emptyValue = 0.5

// Encoder turns cells into features and back. It is safe for concurrent use.
type Encoder struct {
	schema *partition.Schema
	heads  []Head
	scales []scaler // by column, for numbers only
	width  int
}

// New lays out the features of a schema: every column in order, except units, identifiers and a label with classes.
func New(s *partition.Schema) *Encoder {
	e := &Encoder{schema: s, scales: make([]scaler, len(s.Columns))}
	add := func(column int, kind HeadKind, width int) {
		e.heads = append(e.heads, Head{Column: column, Kind: kind, Offset: e.width, Width: width})
		e.width += width
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		if !c.HasCell() || i == s.LabelColumn() && s.HasClasses() {
			continue
		}
		switch c.Kind {
		case partition.Categorical:
			width := len(c.Categories)
			if c.Nullable {
				width++
			}
			add(i, HeadCategory, width)
			continue
		case partition.Binary:
			add(i, HeadBinary, 1)
		default:
			e.scales[i] = newScaler(c)
			add(i, HeadNumber, 1)
		}
		if c.Nullable {
			add(i, HeadMissing, 1)
		}
	}
	return e
}

// Schema is the schema of the rows.
func (e *Encoder) Schema() *partition.Schema { return e.schema }

// Width is the number of features per row.
func (e *Encoder) Width() int { return e.width }

// Heads returns the groups of features in order; together they cover all features.
func (e *Encoder) Heads() []Head { return slices.Clone(e.heads) }

// Image is the shape of the images whose pixels the features are, one number each: row by row, with the channels of a
// pixel together. It is nil for tables.
func (e *Encoder) Image() *partition.Image {
	if e.schema.Image == nil {
		return nil
	}
	shape := *e.schema.Image
	return &shape
}

// Numbers are the features that hold numbers, in order.
func (e *Encoder) Numbers() []int {
	var numbers []int
	for _, h := range e.heads {
		if h.Kind == HeadNumber {
			numbers = append(numbers, h.Offset)
		}
	}
	return numbers
}

// Indicators reports for each feature whether it is always 0 or 1.
func (e *Encoder) Indicators() []bool {
	all := make([]bool, e.width)
	for _, h := range e.heads {
		if h.Kind != HeadNumber {
			for j := range h.Width {
				all[h.Offset+j] = true
			}
		}
	}
	return all
}

// Names are the features' names: the column's, with "=category" for a category and "=" for an empty cell.
func (e *Encoder) Names() []string {
	names := make([]string, 0, e.width)
	for _, h := range e.heads {
		c := &e.schema.Columns[h.Column]
		if h.Kind == HeadNumber || h.Kind == HeadBinary {
			names = append(names, c.Name)
			continue
		}
		for i := range h.Width {
			name := c.Name + "="
			if h.Kind == HeadCategory && i < len(c.Categories) {
				name += c.Categories[i]
			}
			names = append(names, name)
		}
	}
	return names
}

// Encoded is a table as numbers.
type Encoded struct {
	Width    int
	Features []float32 // rows x Width, each in [0,1]
	Classes  []int     // an index of Schema.Classes per row; 0 without classes
}

// Len is the number of rows.
func (x *Encoded) Len() int { return len(x.Classes) }

// Row returns the features of a row; x owns the slice.
func (x *Encoded) Row(i int) []float32 {
	return x.Features[i*x.Width : (i+1)*x.Width : (i+1)*x.Width]
}

// Encode encodes all rows of a table of the encoder's schema.
func (e *Encoder) Encode(t *partition.Table) *Encoded {
	x := &Encoded{Width: e.width}
	e.EncodeInto(x, t)
	return x
}

// EncodeInto is Encode into the memory of an earlier result.
func (e *Encoder) EncodeInto(x *Encoded, t *partition.Table) {
	n := t.Len()
	x.Width, x.Features = e.width, slices.Grow(x.Features[:0], n*e.width)[:n*e.width]
	x.Classes = slices.Grow(x.Classes[:0], n)[:n]
	clear(x.Features)
	for row := range n {
		cells := t.Cells(row)
		out := x.Row(row)
		for i := range e.heads {
			h := &e.heads[i]
			e.encodeHead(h, cells[h.Column], out[h.Offset:h.Offset+h.Width])
		}
		x.Classes[row] = t.Label(row)
	}
}

func (e *Encoder) encodeHead(h *Head, cell float64, out []float32) {
	empty := math.IsNaN(cell)
	switch {
	case h.Kind == HeadMissing:
		if empty {
			out[0] = 1
		}
	case h.Kind == HeadCategory && empty:
		out[h.Width-1] = 1
	case h.Kind == HeadCategory:
		out[int(cell)] = 1
	case empty:
		out[0] = emptyValue
	case h.Kind == HeadBinary:
		out[0] = float32(cell)
	default:
		out[0] = float32(e.scales[h.Column].encode(cell))
	}
}

// Decode returns the cells of one row of features. It clamps numbers to their range, drops decimals that float32
// cannot carry, rounds integers, takes the largest of a category (the first of equals), and makes binary and missing
// 1 from 0.5 on. class is the label's class (0 without classes). unit is the text of a unit column, which may be
// empty; it is only checked, because its cell is always NaN. Infinite or NaN features, or a wrong number of them, are
// errors.
func (e *Encoder) Decode(features []float32, class int, unit string) ([]float64, error) {
	if len(features) != e.width {
		return nil, fmt.Errorf("decode a row: %d features, expected %d", len(features), e.width)
	}
	for i, f := range features {
		if f64 := float64(f); math.IsNaN(f64) || math.IsInf(f64, 0) {
			return nil, fmt.Errorf("decode a row: feature %d (%s) is not a finite number;"+
				" the model that made it has diverged", i, e.Names()[i])
		}
	}
	s := e.schema
	if at := s.UnitColumn(); at >= 0 {
		if _, fault := s.Columns[at].ParseUnit(unit); unit != "" && fault != nil {
			return nil, fmt.Errorf("decode a row: unit column %q: %s", s.Columns[at].Name, fault.Problem)
		}
	}
	switch {
	case s.HasClasses():
		if class < 0 || class >= s.Columns[s.LabelColumn()].ClassCount() {
			return nil, fmt.Errorf("decode a row: there is no class %d", class)
		}
	case class != 0:
		return nil, fmt.Errorf("decode a row: class %d, but the schema has no classes", class)
	}
	cells := make([]float64, len(s.Columns))
	e.DecodeInto(cells, features, class)
	return cells, nil
}

// DecodeInto is [Encoder.Decode] into cells, one per column, for features and a class from Encode.
func (e *Encoder) DecodeInto(cells []float64, features []float32, class int) {
	s := e.schema
	for i := range s.Columns {
		if !s.Columns[i].HasCell() {
			cells[i] = math.NaN()
		}
	}
	if s.HasClasses() {
		cells[s.LabelColumn()] = float64(class)
	}
	for i := range e.heads {
		h := &e.heads[i]
		f := features[h.Offset : h.Offset+h.Width]
		switch h.Kind {
		case HeadNumber:
			cells[h.Column] = e.scales[h.Column].decode(float64(f[0]))
		case HeadBinary:
			cells[h.Column] = 0
			if f[0] >= 0.5 {
				cells[h.Column] = 1
			}
		case HeadMissing:
			if f[0] >= 0.5 {
				cells[h.Column] = math.NaN()
			}
		case HeadCategory:
			best := 0
			for i := range f {
				if f[i] > f[best] {
					best = i
				}
			}
			cells[h.Column] = float64(best)
			if best == len(s.Columns[h.Column].Categories) {
				cells[h.Column] = math.NaN()
			}
		}
	}
}
