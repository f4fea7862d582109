package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Pushed is rows that stay in their database, which does the counting. It interprets cells exactly as [Read] does:
// SQL compares numbers as the float64 that Read makes of them. For all other columns the database returns each
// distinct text once, and the node parses it. Start with [OpenPushed].
type Pushed struct {
	schema  *partition.Schema
	config  Config
	options tabular.Options
	// unit reports whether a unit may have several rows.
	unit    bool
	columns []column // of the schema
	rows    int
	units   int
}

// column says how a column of the schema is read.
type column struct {
	*partition.Column
	name string // in SQL
	oid  uint32 // of its type
	as   reading
	// words has the cells of the column's texts.
	words dictionary
}

type reading int

const (
	unread    reading = iota
	asNumber          // by SQL
	asText            // with a dictionary
	asUnit            // a text that names the privacy unit
	maxCounts = 1 << 27
)

// The most statements of a question: the sum of the rows, the values near borders, the counts.
const statements = 3

// OpenPushed asks the server for the query's columns and reads no row. If a unit may have several records, which
// count as one, unit is true.
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

// Rows and Units are the numbers of rows and units, known after Check. PRIVATE.
func (p *Pushed) Rows() int  { return p.rows }
func (p *Pushed) Units() int { return p.units }

// Schema is the schema of the rows.
func (p *Pushed) Schema() *partition.Schema { return p.schema }

// Check makes the database check every cell, and counts rows and units. If cells violate the schema the error is
// *[tabular.Violations], by column and without row numbers.
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

// UnitsBy makes the database count the units with each category of a column. A unit with rows in several categories
// counts for each of them; empty cells do not count. PRIVATE.
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

// of is the set of the listed columns.
func (p *Pushed) of(columns ...int) map[int]bool {
	need := map[int]bool{}
	for _, c := range columns {
		need[c] = true
	}
	return need
}
