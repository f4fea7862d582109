package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// sourceName names the source in errors, in place of a file's path.
const sourceName = "sql"

// Read runs the query and returns a table of the rows of the options' site and share. Errors about rows and columns
// are *partition.InputError.
func Read(ctx context.Context, s *partition.Schema, c Config, o tabular.Options) (*partition.Table, error) {
	in, err := c.begin(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer in.end()
	rows, err := in.read(s, o)
	if err != nil {
		return nil, err
	}
	return sorted(rows), nil
}

// read reads the rows of the query.
func (in *session) read(s *partition.Schema, o tabular.Options) (*partition.Table, error) {
	columns, err := in.columns()
	if err != nil {
		return nil, err
	}
	builder, err := tabular.NewBuilder(s, sourceName, tabular.FromSQL, columns, o)
	if err != nil {
		return nil, err
	}
	rows := in.conn.ExecPrepared(in.ctx, "rows", nil, nil, nil) // results as text
	texts := make([]string, len(columns))
	for rows.NextRow() {
		for i, raw := range rows.Values() {
			texts[i] = text(columns[i].Kind, raw)
		}
		if err := builder.Add(texts); err != nil {
			return nil, err // closing the connection ends the query
		}
	}
	if _, err := rows.Close(); err != nil {
		return nil, builder.Broken(queryError("read the rows", err))
	}
	return builder.Table()
}

// sorted sorts the rows by their cells, from the first column on, then by unit.
func sorted(t *partition.Table) *partition.Table {
	rows := make([]int, t.Len())
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		// Equal cells have the same bits, and NaN, an empty cell, sorts first.
		return cmp.Or(slices.Compare(t.Cells(a), t.Cells(b)), cmp.Compare(t.Unit(a), t.Unit(b)))
	})
	return t.Subset(rows)
}
