package xlsx

import (
	"encoding/xml"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
)

// The size of the largest sheet.
const (
	mostRows    = 1 << 20
	mostColumns = 1 << 14
)

// Rows yields the rows of a sheet that have a value, each as the texts of its cells up to the last value, empty for
// none. They are valid until the next row. Cells of columns that wanted refuses are empty, and their problems are not
// errors; nil wants all. After [CellErrors], which come with the row, the rows continue; any other error ends the
// iteration.
func (f *File) Rows(sheet int, wanted func(column int) bool) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		r, err := f.open(f.sheets[sheet], maxSheet)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.close()
		f.rows(r, wanted, yield)
	}
}

// Empty reports whether no cell of a sheet has a value.
func (f *File) Empty(sheet int) (bool, error) {
	for _, err := range f.Rows(sheet, nil) {
		return false, err
	}
	return true, nil
}

func (f *File) rows(r *reader, wanted func(int) bool, yield func([]string, error) bool) {
	var cells []string
	last, data := 0, false // the last row, and whether the rows have started
	for {
		token, err := r.next()
		if err == io.EOF && !data {
			err = damaged("%s has no rows of cells", r.part)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		start, ok := token.(xml.StartElement)
		switch {
		case !ok:
			continue
		case start.Name.Local == "sheetData":
			data = true
			continue
		case start.Name.Local != "row":
			continue
		}
		row := last + 1
		if text := attribute(start, "r"); text != "" {
			row, err = strconv.Atoi(text)
		}
		if err != nil || row <= last || row > mostRows {
			yield(nil, damaged("%s has rows that are not in their order", r.part))
			return
		}
		last = row
		var wrong CellErrors
		if cells, wrong, err = f.row(r, wanted, cells[:0]); err != nil {
			yield(nil, err)
			return
		}
		if len(wrong) > 0 {
			err = wrong
		}
		if len(cells) > 0 && !yield(cells, err) {
			return
		}
	}
}

// row reads the cells of the row that was just opened.
func (f *File) row(r *reader, wanted func(int) bool, cells []string) (_ []string, wrong CellErrors, _ error) {
	column := -1
	for {
		token, err := r.next()
		if err != nil {
			return nil, nil, readError(r.part, err)
		}
		if _, ended := token.(xml.EndElement); ended {
			return cells, wrong, nil
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local != "c" { // an extension
			if _, err := r.text(); err != nil {
				return nil, nil, err
			}
			continue
		}
		at := column + 1
		if place := attribute(start, "r"); place != "" {
			at = columnOf(place)
		}
		if at <= column || at >= mostColumns {
			return nil, nil, damaged("%s has cells that are not in their order", r.part)
		}
		column = at
		text, err := f.cell(r, start, column)
		unread := wanted != nil && !wanted(column)
		if bad := new(CellError); errors.As(err, &bad) {
			if !unread {
				wrong = append(wrong, bad)
			}
		} else if err != nil {
			return nil, nil, err
		}
		if text == "" && err == nil {
			continue
		}
		for len(cells) < column {
			cells = append(cells, "")
		}
		if unread {
			text = ""
		}
		cells = append(cells, text)
	}
}

// columnOf is the column of a cell reference such as AB12, from 0; -1 if invalid.
func columnOf(place string) int {
	column := 0
	for i := range len(place) {
		if place[i] < 'A' || place[i] > 'Z' {
			break
		}
		if column = 26*column + int(place[i]-'A') + 1; column > mostColumns {
			return -1
		}
	}
	return column - 1
}

// cell reads the cell that was just opened.
func (f *File) cell(r *reader, start xml.StartElement, column int) (string, error) {
	value, formula, has := "", false, false
	for {
		token, err := r.next()
		if err != nil {
			return "", readError(r.part, err)
		}
		if _, ended := token.(xml.EndElement); ended {
			break
		}
		inner, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch inner.Name.Local {
		case "v":
			value, err = r.plain()
			has = true
		case "is":
			value, err = r.text()
			has = true
		case "f":
			_, err = r.plain()
			formula = true
		default:
			_, err = r.text() // an extension
		}
		if err != nil {
			return "", err
		}
	}
	if formula && value == "" && attribute(start, "t") != "str" {
		return "", &CellError{column, "the cell has a formula whose result is not stored",
			"open the workbook in a spreadsheet program and save it"}
	}
	if !has {
		return "", nil
	}
	return f.value(r, start, column, value)
}

// value is the text of a cell's stored value.
func (f *File) value(r *reader, start xml.StartElement, column int, stored string) (string, error) {
	switch attribute(start, "t") {
	case "s":
		i, err := strconv.Atoi(strings.TrimSpace(stored))
		if err != nil || i < 0 || i >= len(f.strings) {
			return "", damaged("%s has a text that is not in the list", r.part)
		}
		return f.strings[i], nil
	case "str":
		return unescape(stored), nil
	case "inlineStr":
		return stored, nil
	case "b":
		return stored, nil
	case "d": // written by programs that follow the strict form
		day, clock, _ := strings.Cut(strings.TrimSuffix(stored, "Z"), "T")
		return strings.TrimSpace(day + " " + clock), nil
	case "e":
		return "", &CellError{column, "the cell has an error of the spreadsheet, such as #N/A",
			"correct the formula, or clear the cell"}
	case "", "n":
		return f.numberText(start, column, stored)
	default:
		return "", unsupported("%s has a cell of an unknown type", r.part)
	}
}

func (f *File) numberText(start xml.StartElement, column int, stored string) (string, error) {
	v, err := strconv.ParseFloat(stored, 64)
	if stored == "" {
		return "", nil
	}
	if err != nil {
		return "", &CellError{column, "the cell should store a number and does not", "enter it again"}
	}
	style := 0
	if text := attribute(start, "s"); text != "" {
		if style, err = strconv.Atoi(text); err != nil || style < 0 || style >= len(f.styles) && style > 0 {
			return "", damaged("a cell has a format that is not in the list")
		}
	}
	if style < len(f.styles) && f.styles[style] != number {
		text, ok := f.from.dateText(v, f.styles[style])
		if !ok {
			return "", &CellError{column, "the cell is shown as a date, and there is no such day",
				"correct it, or give the cell the format of a number"}
		}
		return text, nil
	}
	if strings.Trim(stored, "0123456789") == "" {
		return stored, nil // with all its digits, which may exceed a float64
	}
	return strconv.FormatFloat(v, 'f', -1, 64), nil
}

func attribute(start xml.StartElement, name string) string {
	for _, a := range start.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}
