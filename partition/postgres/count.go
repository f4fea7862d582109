package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/partition/tally"
)

// Sum distinguishes tables by their rows, whatever their order.
type Sum [4]uint64

// ErrChanged says that the database's rows have changed.
var ErrChanged = errors.New("sql: the rows changed since the start of the node; start it again, with a query whose " +
	"rows do not change")

// errUnexpected is an answer that no PostgreSQL gives.
var errUnexpected = errors.New("sql: the server does not answer like PostgreSQL")

// ask runs a statement and passes its rows to do, valid until it returns.
func (in *session) ask(doing, sql string, params [][]byte, do func(row [][]byte) error) error {
	rows := in.conn.ExecParams(in.ctx, sql, params, nil, nil, nil)
	for rows.NextRow() {
		if err := do(rows.Values()); err != nil {
			return err // closing the connection ends the query
		}
	}
	if _, err := rows.Close(); err != nil {
		return queryError(doing, err)
	}
	return nil
}

func whole(raw []byte) (int, error) {
	v, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0, errUnexpected
	}
	return v, nil
}

func real(raw []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, errUnexpected
	}
	return v, nil
}

// SumRows is the sum of the site's rows under a key, which the database sees.
func (p *Pushed) SumRows(ctx context.Context, key [32]byte) (Sum, error) {
	in, err := p.config.begin(ctx, 1)
	if err != nil {
		return Sum{}, err
	}
	defer in.end()
	return p.sumRows(in, key)
}

// sumRows adds up the SHA-256 of the key and each row as PostgreSQL writes it.
func (p *Pushed) sumRows(in *session, key [32]byte) (sum Sum, err error) {
	s := p.from(nil)
	var names, words []string
	for i := range p.columns {
		if c := &p.columns[i]; c.as != unread {
			names = append(names, c.name)
		}
	}
	for i := range sum {
		words = append(words, fmt.Sprintf("sum(('x' || substr(h.digest, %d, 16))::bit(64)::int8)", 16*i+1))
	}
	sql := "select " + strings.Join(words, ", ") + " from (select encode(sha256(" +
		s.add(`\x`+hex.EncodeToString(key[:]), "bytea") + " || convert_to(row(" + strings.Join(names, ", ") +
		")::text, 'UTF8')), 'hex') as digest" + s.from() + ") as h"
	err = in.ask("add up the rows", sql, s.params, func(row [][]byte) error {
		for i, raw := range row {
			v, ok := new(big.Int).SetString(string(raw), 10)
			if !ok && raw != nil {
				return errUnexpected
			}
			if raw != nil { // otherwise there is no row
				sum[i] = v.And(v, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
			}
		}
		return nil
	})
	return sum, err
}

// Counting lets the database count as long as its rows have this sum under the key.
func (p *Pushed) Counting(key [32]byte, want Sum) func(context.Context, *tally.Tally) ([]int64, error) {
	return func(ctx context.Context, t *tally.Tally) ([]int64, error) {
		in, err := p.config.begin(ctx, statements)
		if err != nil {
			return nil, err
		}
		defer in.end()
		if sum, err := p.sumRows(in, key); err != nil {
			return nil, err
		} else if sum != want {
			return nil, ErrChanged
		}
		places, err := p.piecesOf(in, t)
		if err != nil {
			return nil, err
		}
		sum := make([]int64, t.Entries)
		if p.unit {
			return sum, p.addParts(in, t, places, sum)
		}
		return sum, p.addGroups(in, t, places, sum)
	}
}

// addParts adds the weight shares of the rows of units to each table.
func (p *Pushed) addParts(in *session, t *tally.Tally, places []pieces, sum []int64) error {
	need := map[int]bool{}
	for i, c := range p.columns {
		need[i] = c.as != unread // they order the rows of a unit
	}
	s := p.from(need)
	ats, signs := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		ats[i], signs[i] = p.at(s, c, places[i]), "1"
		if c.Sign {
			signs[i], ats[i] = "case when "+ats[i]+" = 0 then -1 else 1 end", "0"
		}
	}
	// "offset 0" makes the server compute a row's cells once instead of for each table.
	rows := "select array[" + strings.Join(ats, ", ") + "]::int4[] as at, array[" + strings.Join(signs, ", ") +
		"]::int4[] as sign, row_number() over w - 1 as nth, count(*) over (partition by " + p.unitOf() + ") as many" +
		s.from() + " window w as (partition by " + p.unitOf() + p.order(s) + ") offset 0"
	var first, second, along, start, weight []int
	for _, c := range t.Tables {
		first, second, along = append(first, c.First+1), append(second, c.Second+1), append(along, c.Along)
		start, weight = append(start, c.Start), append(weight, c.Weight)
	}
	sql := "select e.entry, sum(e.part)::int8 from (select t.start + case when t.a = t.b then 0 else r.at[t.a] end" +
		" * t.along + r.at[t.b] as entry, (t.weight / r.many + case when (r.nth + t.number - 1) % r.many < t.weight" +
		" % r.many then 1 else 0 end)::int4 * r.sign[t.b] * case when t.a = t.b then 1 else r.sign[t.a] end as part" +
		" from (" + rows + ") as r cross join unnest(" + s.wholes(first) + ", " + s.wholes(second) + ", " +
		s.wholes(along) + ", " +
		s.wholes(start) + ", " + s.wholes(weight) + ") with ordinality as t(a, b, along, start, weight, number)) as e" +
		" group by e.entry"
	return in.ask("count", sql, s.params, func(row [][]byte) error {
		at, err := whole(row[0])
		v, other := strconv.ParseInt(string(row[1]), 10, 64)
		if err != nil || other != nil || at < 0 || at >= len(sum) {
			return errUnexpected
		}
		sum[at] = v
		return nil
	})
}

// order is the order of a unit's rows: by their cells, empty first.
func (p *Pushed) order(s *statement) string {
	var by []string
	for i := range p.columns {
		if p.schema.Columns[i].HasCell() {
			by = append(by, p.cell(s, i)+" nulls first")
		}
	}
	return " order by " + strings.Join(by, ", ")
}

// at is the cell of a column for a row.
func (p *Pushed) at(s *statement, c *tally.Cells, by pieces) string {
	v, empty := p.cell(s, c.Column), 0
	if p.columns[c.Column].Nullable {
		empty = c.Cell(math.NaN())
	}
	if c.Near != nil {
		return fmt.Sprintf("coalesce((%s)[width_bucket(%s, %s) + 1], %d)", s.wholes(by.cells), v, s.numbers(by.breaks),
			empty)
	}
	var cells []int
	for value := range p.columns[c.Column].ClassCount() {
		cells = append(cells, c.Cell(float64(value)))
	}
	return fmt.Sprintf("coalesce((%s)[(%s)::int4 + 1], %d)", s.wholes(cells), v, empty)
}
