// Package resolved writes the meaning of a schema as JSON: defaults filled in, bounds and constraints as numbers.
// Programs that draw from a saved model read it instead of the YAML.
package resolved

import (
	"fmt"
	"reflect"

	"github.com/conclave-dp/conclave/partition"
)

// Schema is a resolved schema. Cells are numbers, as in [partition.Table]; null is the empty cell.
type Schema struct {
	Name        string                 `json:"name,omitempty"`
	Task        string                 `json:"task"`
	Label       string                 `json:"label,omitempty"`
	Positive    string                 `json:"positive,omitempty"`
	Image       *Image                 `json:"image,omitempty"`
	Columns     []Column               `json:"columns"`
	Constraints []partition.Constraint `json:"constraints,omitempty"`
}

// Image is the shape of images.
type Image struct {
	Height   int `json:"height"`
	Width    int `json:"width"`
	Channels int `json:"channels"`
}

// Column is a column. With a Repeat it represents that many, whose names end in _0, _1 and so on.
type Column struct {
	Name       string      `json:"name"`
	Repeat     int         `json:"repeat,omitempty"`
	Kind       string      `json:"kind"`               // the kind used for computation
	Declared   string      `json:"declared,omitempty"` // the kind in schema.yaml, if different
	Start      string      `json:"start,omitempty"`
	Resolution string      `json:"resolution,omitempty"`
	Format     string      `json:"format,omitempty"`
	Codes      string      `json:"codes,omitempty"`
	Pattern    string      `json:"pattern,omitempty"`
	Lower      *float64    `json:"lower,omitempty"`
	Upper      *float64    `json:"upper,omitempty"`
	Clip       *[2]float64 `json:"clip,omitempty"`
	Scale      string      `json:"scale,omitempty"`
	Points     []float64   `json:"points,omitempty"` // numbers that the schema names, rising
	Categories []string    `json:"categories,omitempty"`
	Names      []string    `json:"names,omitempty"`
	Nullable   bool        `json:"nullable,omitempty"`
	Role       string      `json:"role,omitempty"`
	Doc        string      `json:"doc,omitempty"`
}

// Of resolves a schema.
func Of(s *partition.Schema) *Schema {
	out := &Schema{Name: s.Name, Task: s.Task, Label: s.Label, Constraints: s.Constraints()}
	if classes, at := s.Classes(), s.Positive(); at >= 0 {
		out.Positive = classes[at]
	}
	if s.Image != nil {
		out.Image = &Image{s.Image.Height, s.Image.Width, s.Image.Channels}
	}
	for i := 0; i < len(s.Columns); {
		c := column(&s.Columns[i])
		n := repeats(s.Columns[i:], c)
		if n > 1 {
			c.Name, c.Repeat = c.Name[:len(c.Name)-len("_0")], n
		}
		out.Columns = append(out.Columns, c)
		i += n
	}
	return out
}

func column(c *partition.Column) Column {
	out := Column{Name: c.Name, Kind: string(c.Kind), Clip: c.Clip, Scale: string(c.Scale), Points: c.Points,
		Categories: c.Categories, Names: c.Names, Nullable: c.Nullable, Role: string(c.Role), Doc: c.Doc}
	if c.Declared() != c.Kind {
		spelled := c.Spelling()
		out.Declared, out.Start, out.Resolution = string(c.Declared()), spelled.Start, spelled.Resolution
		out.Format, out.Codes, out.Pattern = spelled.Format, spelled.Codes, spelled.Pattern
	}
	if c.Kind == partition.Continuous || c.Kind == partition.Integer {
		out.Lower, out.Upper = &c.Lower, &c.Upper
	}
	return out
}

// repeats counts the columns, from the first on, that are equal except for names that count from 0: the pixels of an
// image are thousands.
func repeats(columns []partition.Column, first Column) int {
	base := first.Name
	if len(base) < 3 || base[len(base)-2:] != "_0" {
		return 1
	}
	n := 1
	for ; n < len(columns); n++ {
		want := first
		want.Name = fmt.Sprintf("%s_%d", base[:len(base)-2], n)
		if !reflect.DeepEqual(column(&columns[n]), want) {
			break
		}
	}
	return n
}
