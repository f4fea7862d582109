package main

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/partition/parquet"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// tableSchema is that of a table of 22 columns as in a register, a label among them.
const tableSchema = `name: register
label: died
columns:
  - {name: age, kind: integer, lower: 0, upper: 120, repeat: 4}
  - {name: flag, kind: binary, repeat: 7}
  - {name: dose, kind: continuous, lower: 0, upper: 100, nullable: true, repeat: 4}
  - {name: ward, kind: categorical, categories: [a, b, c, d, e, f], repeat: 6}
  - {name: died, kind: binary}
`

// patient is a column before the others, for tables of persons with four records each in the mean.
const patient = "  - {name: patient, kind: integer, lower: 0, upper: 1000000000, role: unit}\n"

// columnsOf are the columns of the file.
func columnsOf(persons bool) (columns []parquet.Column) {
	if persons {
		columns = append(columns, parquet.Column{Name: "patient", Kind: parquet.Whole})
	}
	for _, k := range []struct {
		name  string
		times int
		kind  parquet.Kind
	}{{"age", 4, parquet.Whole}, {"flag", 7, parquet.Whole}, {"dose", 4, parquet.Number}, {"ward", 6, parquet.Text}} {
		for i := range k.times {
			columns = append(columns, parquet.Column{Name: k.name + "_" + strconv.Itoa(i), Kind: k.kind})
		}
	}
	return append(columns, parquet.Column{Name: "died", Kind: parquet.Whole})
}

// writeTable writes a table of so many rows, the same each time, and its schema beside it: CSV where the file's name
// ends in .csv, else Parquet. No row is kept.
func writeTable(path string, rows int, persons bool) (err error) {
	text := tableSchema
	if persons {
		text = strings.Replace(text, "columns:\n", "columns:\n"+patient, 1)
	}
	if err := os.WriteFile(schemaPath(path), []byte(text), 0o600); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	columns := columnsOf(persons)
	w := newWriter(out, path, columns)
	random, cells := rand.New(rand.NewPCG(1, 2)), make([]string, len(columns))
	small := make([]string, 1000)
	for i := range small {
		small[i] = strconv.Itoa(i)
	}
	for range rows {
		for i, c := range columns {
			switch {
			case c.Name == "patient":
				cells[i] = strconv.Itoa(random.IntN(max(1, rows/4)))
			case strings.HasPrefix(c.Name, "age"):
				cells[i] = small[random.IntN(100)]
			case strings.HasPrefix(c.Name, "dose") && random.IntN(50) == 0:
				cells[i] = ""
			case strings.HasPrefix(c.Name, "dose"):
				cells[i] = strconv.FormatFloat(float64(random.IntN(1000))/100, 'f', -1, 64)
			case c.Kind == parquet.Text:
				cells[i] = "abcdef"[random.IntN(6):][:1]
			default:
				cells[i] = small[random.IntN(2)]
			}
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), out.Flush())
}

// rowsOf are those of a table, which may be in parts.
func rowsOf(path string) (rows int64, err error) {
	files, err := tabular.Files(path)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		n, err := rowsIn(file)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

func rowsIn(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if formatOf(path) == "csv" {
		return linesBelow(f)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	file, err := parquet.Open(f, info.Size())
	if err != nil {
		return 0, err
	}
	return file.Len(), nil
}

func schemaPath(table string) string { return filepath.Join(filepath.Dir(table), "schema.yaml") }
