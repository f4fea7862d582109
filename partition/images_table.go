package partition

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Table gives the images as rows of a schema of such images: a pixel a column,
// and the class in the label's.
func (x *Images) Table(s *Schema) (*Table, error) {
	if err := x.check(s); err != nil {
		return nil, fmt.Errorf("make a table of images: %w", err)
	}
	n := len(s.Columns)
	t := &Table{schema: s, rows: x.Len(), cells: make([]float64, x.Len()*n)}
	for row := range t.rows {
		x.fillCells(s, row, t.cells[row*n:(row+1)*n])
	}
	return t, nil
}

// check tells whether the images are of the schema.
func (x *Images) check(s *Schema) error {
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

// fillCells writes image i as a row of the schema.
func (x *Images) fillCells(s *Schema, i int, cells []float64) {
	pixels := x.Image(i)
	for j := range cells {
		if j == s.label {
			cells[j] = float64(x.Classes[i])
			continue
		}
		cells[j], pixels = float64(pixels[0]), pixels[1:]
	}
}

// selectRows applies a share; images have no site. A record's place is the one
// it has in a table, without the table, which takes eight times the memory.
func (x *Images) selectRows(s *Schema, name string, o ReadOptions) (*Images, error) {
	if o.From == 0 && (o.To == 0 || o.To == 1) {
		return x, nil
	}
	cells := make([]float64, len(s.Columns))
	var rows []int
	for row, at := range positions(digestRecords(shareKey, x.Len(), func(h *hasher, row int) {
		x.fillCells(s, row, cells)
		for _, cell := range cells {
			h.number(cellBits(cell))
		}
	})) {
		if at >= o.From && at < o.To {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, &InputError{File: name, Problem: "no image belongs to this share", Mend: "check the share"}
	}
	return x.Subset(rows), nil
}

// Images gives the rows of a table of images as images. It fails for other tables.
func (t *Table) Images() (*Images, error) {
	s := t.schema
	if s.Image == nil {
		return nil, errors.New("make images of a table: its schema is not one of images; use one of format idx")
	}
	x := &Images{Shape: *s.Image, Pixels: make([]byte, 0, t.rows*s.Image.Size()), Classes: make([]int, t.rows)}
	for row := range t.rows {
		for j, cell := range t.Cells(row) {
			if j != s.label {
				x.Pixels = append(x.Pixels, byte(cell)) // 0 to 255, by the schema
			}
		}
		x.Classes[row] = t.Label(row)
	}
	return x, nil
}

// EncodeIDX gives the two files of images, gzipped or not. The same images give
// the same bytes.
func EncodeIDX(x *Images, zip bool) (images, labels []byte, err error) {
	var files [2]bytes.Buffer
	if !zip {
		err = WriteIDX(&files[0], &files[1], x)
		return files[0].Bytes(), files[1].Bytes(), err
	}
	var zipped [2]*gzip.Writer
	for i := range zipped {
		zipped[i] = gzip.NewWriter(&files[i])
	}
	err = WriteIDX(zipped[0], zipped[1], x)
	for _, z := range []io.Closer{zipped[0], zipped[1]} {
		err = errors.Join(err, z.Close())
	}
	return files[0].Bytes(), files[1].Bytes(), err
}
