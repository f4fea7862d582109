package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// column is a kind of column of the table, so many times.
type column struct {
	name, schema string
	times        int
	cell         func(r *rand.Rand) string
}

var columns = []column{
	{"age", "kind: integer, lower: 0, upper: 120", 4, func(r *rand.Rand) string { return strconv.Itoa(r.IntN(100)) }},
	{"flag", "kind: binary", 8, func(r *rand.Rand) string { return strconv.Itoa(r.IntN(2)) }},
	{"dose", "kind: continuous, lower: 0, upper: 100, nullable: true", 4, func(r *rand.Rand) string {
		if r.IntN(50) == 0 {
			return ""
		}
		return strconv.FormatFloat(10*r.Float64(), 'f', 2, 64)
	}},
	{"ward", "kind: categorical, categories: [a, b, c, d, e, f]", 6, func(r *rand.Rand) string {
		return string(rune('a' + r.IntN(6)))
	}},
}

// names are those of a kind's columns, with commas between.
func (c *column) names() string {
	names := make([]string, c.times)
	for i := range names {
		names[i] = fmt.Sprintf("%s_%d", c.name, i)
	}
	return strings.Join(names, ",")
}

func schema() (*partition.Schema, error) {
	var b strings.Builder
	b.WriteString("columns:\n")
	for i := range columns {
		c := &columns[i]
		fmt.Fprintf(&b, "  - {name: %s, %s, repeat: %d}\n", c.name, c.schema, c.times)
	}
	return partition.ParseSchema([]byte(b.String()))
}

// write writes a table of so many rows, the same each time.
func write(path string, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	var header []string
	for i := range columns {
		header = append(header, columns[i].names())
	}
	fmt.Fprintln(w, strings.Join(header, ","))
	random, line := rand.New(rand.NewPCG(1, 2)), []byte(nil)
	for range rows {
		line = line[:0]
		for i := range columns {
			for range columns[i].times {
				line = append(append(line, columns[i].cell(random)...), ',')
			}
		}
		line[len(line)-1] = '\n'
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}
