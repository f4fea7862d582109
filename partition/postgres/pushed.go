package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Pushed are rows that stay in their database, which counts them. What reads a cell is as exact as [Read]: numbers are
// compared in SQL as the float64 that Read makes of them, and of all other columns the database gives the different
// texts, once, which are read here. Start with [OpenPushed].
type Pushed struct {
	schema  *partition.Schema
	config  Config
	options tabular.Options
	// unit is whether a unit may have several rows.
	unit    bool
	columns []column // of the schema
	rows    int
	units   int
}

// column is how a column of the schema is read.
type column struct {
	*partition.Column
	name string // in SQL
	oid  uint32 // of its type
	as   reading
	// words has the cells of the texts in the column.
	words dictionary
}

type reading int

const (
	unread    reading = iota
	asNumber          // by SQL
	asText            // by a dictionary
	asUnit            // a text that names the privacy unit
	maxCounts = 1 << 27
)

// What a question takes, at most: the sum of the rows, the values near borders, the counts.
const statements = 3

// OpenPushed asks the server what the query's columns are, and looks at no row. Where all records of a unit count as
// one, unit is true.
func OpenPushed(ctx context.Context, s *partition.Schema, c Config, o tabular.Options, unit bool) (*Pushed, error) {
	if len(s.Constraints()) > 0 {
		return nil, errors.New("sql.pushdown: the schema has constraints, which the database does not check;" +
			" remove sql.pushdown")
	}
	if o.From != 0 || o.To != 0 && o.To != 1 {
		return nil, errors.New("sql.pushdown: a share is chosen by digests of the rows, which the database does not" +
			" make; remove share, or sql.pushdown")
	}
	in, err := c.begin(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer in.end()
	p := &Pushed{schema: s, config: c, options: o, unit: unit}
	p.columns, err = in.match(s, o)
	return p, err
}

// match finds the columns of a schema in the query.
func (in *session) match(s *partition.Schema, o tabular.Options) ([]column, error) {
	fields, err := in.fields()
	if err != nil {
		return nil, err
	}
	found, err := describe(in.ctx, in.conn, fields)
	if err != nil {
		return nil, err
	}
	target, err := tabular.Match(s, sourceName, tabular.FromSQL, found, o)
	if err != nil {
		return nil, err
	}
	columns := make([]column, len(s.Columns))
	for i, at := range target {
		if at < 0 {
			continue
		}
		of := &s.Columns[at]
		columns[at] = column{Column: of, name: "q." + quoted(fields[i].Name), oid: fields[i].DataTypeOID,
			as: readingOf(of, found[i].Kind)}
	}
	return columns, nil
}

func readingOf(c *partition.Column, k tabular.CellKind) reading {
	switch {
	case c.Kind == partition.Text:
		return asUnit
	case c.Number() && (k == tabular.WholeNumbers || k == tabular.Numbers):
		return asNumber
	}
	return asText
}

// Rows and Units are how many there are, once they were checked. PRIVATE.
func (p *Pushed) Rows() int  { return p.rows }
func (p *Pushed) Units() int { return p.units }

// Schema is that of the rows.
func (p *Pushed) Schema() *partition.Schema { return p.schema }

// Check has the database look at every cell, and counts rows and units. Where cells are not as the schema has them the
// error is *[tabular.Violations], by column and without numbers of rows.
func (p *Pushed) Check(ctx context.Context) error {
	in, err := p.config.begin(ctx, statements)
	if err != nil {
		return err
	}
	defer in.end()
	if err := p.learnWords(in); err != nil {
		return err
	}
	q := p.from(p.of(p.schema.UnitColumn()))
	units := "count(*)"
	if p.unit {
		units = "count(distinct " + p.unitOf() + ")"
	}
	err = in.ask("count the rows", "select count(*), "+units+q.from(), q.params, func(row [][]byte) error {
		p.rows, err = whole(row[0])
		if err == nil {
			p.units, err = whole(row[1])
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case p.rows == 0:
		return &partition.InputError{File: sourceName, Problem: "no row belongs to this site",
			Fix: "check site, the query, and what its user may see"}
	case p.rows > maxCounts:
		return &partition.InputError{File: sourceName, Problem: fmt.Sprintf("more than %d rows", maxCounts),
			Fix: "divide them among several nodes"}
	}
	return nil
}

// UnitsBy counts the units that have each category of a column, by the database. A unit with rows of several categories
// counts for each of them; an empty cell is none. PRIVATE.
func (p *Pushed) UnitsBy(ctx context.Context, at int) (map[string]int, error) {
	in, err := p.config.begin(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer in.end()
	q, units := p.from(p.of(at, p.schema.UnitColumn())), "count(*)"
	if p.unit {
		units = "count(distinct " + p.unitOf() + ")"
	}
	by := map[string]int{}
	err = in.ask("count units", "select "+p.cell(q, at)+", "+units+q.from()+" group by 1", q.params,
		func(row [][]byte) error {
			if row[0] == nil {
				return nil
			}
			cell, err := real(row[0])
			n, other := whole(row[1])
			if err != nil || other != nil {
				return errUnexpected
			}
			by[p.schema.Columns[at].CellText(cell)] = n
			return nil
		})
	return by, err
}

// of is a choice of columns: those in the list.
func (p *Pushed) of(columns ...int) map[int]bool {
	need := map[int]bool{}
	for _, c := range columns {
		need[c] = true
	}
	return need
}
