// Package rows holds a node's records, as configured: in memory, in files or a database that are read for each
// question, or in a database that counts. It divides their privacy units among teachers, and makes the site that
// answers.
package rows

import (
	"context"
	"fmt"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Rows are a node's records, read once and checked: in memory, on disk if the node streams, or in a database that
// counts.
type Rows interface {
	Schema() *partition.Schema
	Len() int // private
	// Divide divides the units among the node's teachers by a key; nil means any key.
	Divide(c Config, key *partition.Key) (*Division, error)
	// Site returns the site that answers questions; questions are checked against p.
	Site(p *question.Public, d *Division, c Config) *question.Site
	// CountUnitsBy counts the privacy units that have each category of a categorical column. A unit with records
	// of several categories counts for each of them; an empty cell is not a category. It may read all rows.
	CountUnitsBy(c Config, column int) (map[string]int, error)
}

// Division says how units are divided.
type Division struct {
	Units    []int               // for each teacher; if the node holds no records, for all at once
	Manifest *partition.Manifest // nil for any key
	of       *partition.Assignment
	// key and sum are for rows in a database.
	key partition.Key
	sum postgres.Sum
}

// Read reads the node's rows and checks each cell. warn is called with unusual properties that are not errors; it
// may be nil.
func (c Config) Read(schema *partition.Schema, warn func(string)) (Rows, error) {
	o := tabular.Options{Site: c.Site, From: c.Share[0], To: c.Share[1], Warn: warn}
	if c.Stream || c.SQL.Pushdown { // in memory, Divide checks the unit
		if err := schema.CheckUnit(c.Unit); err != nil {
			return nil, fmt.Errorf("%s: %w", c.source(), err)
		}
	}
	switch {
	case c.SQL.Pushdown:
		return c.push(schema, o)
	case c.Stream && c.SQL.Set():
		return c.cursor(schema, o)
	case c.Stream:
		return c.stream(schema, o)
	}
	var table *partition.Table
	var err error
	if c.SQL.Set() {
		table, err = postgres.Read(context.Background(), schema, c.SQL, o) // sql.timeout ends it
	} else {
		table, err = tabular.Read(schema, c.Data, o)
	}
	if err != nil {
		return nil, err
	}
	return InMemory{table}, nil
}

// undivided checks how many units rows have that are not in memory. Their division has all units as one.
func (c Config) undivided(units int) (*Division, error) {
	if err := partition.CheckUnits(units, c.Teachers, partition.MostStreamed); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	return &Division{Units: []int{units}}, nil
}
