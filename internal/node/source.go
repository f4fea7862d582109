package node

import (
	"context"
	"errors"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// checkSource reports what is wrong with where the rows come from.
func (c Config) checkSource() error {
	switch {
	case c.Data != "" && c.SQL.Set():
		return errors.New("data: sql is given too; keep one of them")
	case c.SQL.Set():
		return c.SQL.Validate()
	case c.Data == "":
		return errors.New("data: missing; give the path of the site's CSV, Parquet or idx file, or a query in sql")
	}
	return nil
}

// source names where the rows come from, for errors.
func (c Config) source() string {
	if c.SQL.Set() {
		return "sql"
	}
	return c.Data
}

// ReadTable reads the node's rows from its file, or from its database.
func (c Config) ReadTable(schema *partition.Schema) (*partition.Table, error) {
	if c.SQL.Set() {
		return postgres.Read(context.Background(), schema, c.SQL, c.readOptions()) // ends by sql.timeout
	}
	return tabular.Read(schema, c.Data, c.readOptions())
}
