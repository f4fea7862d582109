package idx

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/partition"
)

// Images are labelled images of one shape. Image i's pixels, row by row with the
// channels of a pixel together, are Pixels[i*size:(i+1)*size].
type Images struct {
	Shape   partition.Image
	Pixels  []byte
	Classes []int
}

// Len returns the number of images.
func (x *Images) Len() int { return len(x.Classes) }

// Image returns image i. The slice is x's own.
func (x *Images) Image(i int) []byte {
	size := x.Shape.Size()
	return x.Pixels[i*size : (i+1)*size]
}

// Subset returns copies of the given images, in that order.
func (x *Images) Subset(rows []int) *Images {
	out := &Images{Shape: x.Shape, Pixels: make([]byte, 0, len(rows)*x.Shape.Size()),
		Classes: make([]int, 0, len(rows))}
	for _, i := range rows {
		out.Pixels = append(out.Pixels, x.Image(i)...)
		out.Classes = append(out.Classes, x.Classes[i])
	}
	return out
}

// Table returns the images as rows of an image schema: a column per pixel, and the class as the label.
func (x *Images) Table(s *partition.Schema) (*partition.Table, error) {
	if err := x.check(s); err != nil {
		return nil, fmt.Errorf("make a table of images: %w", err)
	}
	t, cells := partition.NewTable(s), make([]float64, len(s.Columns))
	t.Grow(x.Len())
	for row := range x.Len() {
		x.fillCells(s, row, cells)
		t.Push(cells, "")
	}
	return t, nil
}

func (x *Images) check(s *partition.Schema) error {
	switch {
	case s.Image == nil:
		return errors.New("the schema is one of a table; use one of format idx")
	case x.Shape != *s.Image || len(x.Pixels) != x.Len()*x.Shape.Size():
		return errors.New("the images do not have the schema's shape")
	}
	classes := len(s.Classes())
	for i, c := range x.Classes {
		if c < 0 || c >= classes {
			return fmt.Errorf("image %d: there is no such class among the schema's %d", i+1, classes)
		}
	}
	return nil
}

func (x *Images) fillCells(s *partition.Schema, i int, cells []float64) {
	pixels := x.Image(i)
	for j := range cells {
		if j == s.LabelColumn() {
			cells[j] = float64(x.Classes[i])
			continue
		}
		cells[j], pixels = float64(pixels[0]), pixels[1:]
	}
}

// Share keeps the images in a share [from, to) of [0, 1), as in Options of tables; 0, 0 keeps all. A record's
// position equals its position in a table, but avoids the table, which takes eight times the memory. name is for
// errors.
func (x *Images) Share(s *partition.Schema, name string, from, to float64) (*Images, error) {
	if from == 0 && (to == 0 || to == 1) {
		return x, nil
	}
	cells := make([]float64, len(s.Columns))
	var rows []int
	for row, at := range partition.RecordPositions(x.Len(), func(row int) []float64 {
		x.fillCells(s, row, cells)
		return cells
	}) {
		if at >= from && at < to {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, &partition.InputError{File: name, Problem: "no image belongs to this share", Fix: "check the share"}
	}
	return x.Subset(rows), nil
}

// FromTable converts the rows of an image table to images. It fails for other tables.
func FromTable(t *partition.Table) (*Images, error) {
	s := t.Schema()
	if s.Image == nil {
		return nil, errors.New("make images of a table: its schema is not one of images; use one of format idx")
	}
	x := &Images{Shape: *s.Image, Pixels: make([]byte, 0, t.Len()*s.Image.Size()), Classes: make([]int, t.Len())}
	for row := range t.Len() {
		for j, cell := range t.Cells(row) {
			if j != s.LabelColumn() {
				x.Pixels = append(x.Pixels, byte(cell)) // 0 to 255, by the schema
			}
		}
		x.Classes[row] = t.Label(row)
	}
	return x, nil
}
