package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/partition/parquet"
)

// writer takes the cells of one row after the other.
type writer interface {
	Write(cells []string) error
	Close() error
}

// formatOf is the format of a file by its name.
func formatOf(path string) string {
	if filepath.Ext(path) == ".csv" {
		return "csv"
	}
	return "parquet"
}

func newWriter(out io.Writer, path string, columns []parquet.Column) writer {
	if formatOf(path) == "csv" {
		w := &csvWriter{to: out}
		var names []string
		for _, c := range columns {
			names = append(names, c.Name)
		}
		w.err = w.Write(names)
		return w
	}
	return parquet.NewWriter(out, columns, func(i int) bool { return strings.HasPrefix(columns[i].Name, "dose") })
}

// csvWriter writes cells that need no quotes.
type csvWriter struct {
	to   io.Writer
	line []byte
	err  error // of the header
}

func (w *csvWriter) Write(cells []string) error {
	w.line = w.line[:0]
	for _, cell := range cells {
		w.line = append(append(w.line, cell...), ',')
	}
	w.line[len(w.line)-1] = '\n'
	_, err := w.to.Write(w.line)
	return err
}

func (w *csvWriter) Close() error { return w.err }

// linesBelow counts the lines below the header.
func linesBelow(r io.Reader) (lines int64, err error) {
	for part := make([]byte, 1<<20); ; {
		n, err := r.Read(part)
		lines += int64(bytes.Count(part[:n], []byte("\n")))
		switch {
		case errors.Is(err, io.EOF):
			return lines - 1, nil
		case err != nil:
			return 0, err
		}
	}
}
