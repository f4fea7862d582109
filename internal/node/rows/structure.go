package rows

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// notRead is rows whose columns and types were read, and no cells. Their number is that of the first start.
type notRead struct {
	schema *partition.Schema
	stored *partition.Manifest
}

// Structure finds the rows, asks a database for its columns, and reads no row: it takes seconds for a table of any
// size. It is for tables that are not read into memory.
func (c Config) Structure(schema *partition.Schema, warn func(string)) (_ Rows, err error) {
	o := tabular.Options{Site: c.Site, From: c.Share[0], To: c.Share[1], Warn: warn}
	if err := schema.CheckUnit(c.Unit); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	r, ctx, unit := notRead{schema: schema}, context.Background(), c.Unit != partition.UnitRecord
	switch {
	case c.SQL.Pushdown:
		_, err = postgres.OpenPushed(ctx, schema, c.SQL, o, unit)
	case c.Stream && c.SQL.Set():
		_, err = postgres.OpenCursor(ctx, schema, c.SQL, o, unit)
	case c.Stream:
		_, err = tabular.OpenStream(schema, c.Data, o, c.scratch())
	default:
		err = errors.New("structure: the rows are loaded into memory; leave out --structure, or set stream or " +
			"sql.pushdown")
	}
	if err == nil {
		r.stored, err = LoadManifest(ManifestPath(c.State))
	}
	return r, err
}

func (r notRead) Schema() *partition.Schema { return r.schema }

func (r notRead) Len() int {
	if r.stored == nil {
		return 0
	}
	return r.stored.Rows
}

// Divide uses the numbers of the first start; before it, the largest number that a node may have.
func (r notRead) Divide(Config, *partition.Key) (*Division, error) {
	if r.stored == nil {
		return &Division{Units: []int{partition.MostStreamed}}, nil
	}
	return &Division{Units: []int{r.stored.Units}, Manifest: r.stored}, nil
}

// Site is never called: rows that were not read answer nothing.
func (r notRead) Site(*question.Public, *Division, Config) *question.Site {
	panic("rows that were not read")
}

func (r notRead) CountUnitsBy(Config, int) (map[string]int, error) {
	return nil, errors.New("rows were not read, so the units of each category are not counted; leave out --structure")
}
