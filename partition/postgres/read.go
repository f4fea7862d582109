package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// sourceName names the source in errors, where a file has its path.
const sourceName = "sql"

// Read asks the query and makes a table of its rows, those of the options' site and
// share. Errors about rows and columns are *partition.InputError.
func Read(ctx context.Context, s *partition.Schema, c Config, o tabular.Options) (*partition.Table, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dsn, err := c.dsn()
	if err != nil {
		return nil, err
	}
	// A little more than the server's own limit, whose error is better.
	ctx, cancel := context.WithTimeout(ctx, c.Timeout+10*time.Second)
	defer cancel()
	conn, err := connect(ctx, dsn, c.Timeout)
	if err != nil {
		return nil, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(closing) // the transaction has nothing to keep
	}()
	rows, err := read(ctx, conn, s, c, o)
	if err != nil {
		return nil, err
	}
	return sorted(rows), nil
}

func connect(ctx context.Context, dsn string, timeout time.Duration) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil { // whose text may hold the password
		return nil, errors.New("sql: the connection string is not one that PostgreSQL takes, or names a certificate" +
			" that cannot be read; compare it with postgres://user:password@host/database?sslmode=verify-full")
	}
	if err := checkEncryption(config); err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > timeout {
		config.ConnectTimeout = min(30*time.Second, timeout)
	}
	config.RuntimeParams["client_encoding"] = "UTF8"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "conclave"
	}
	config.OnNotice = nil // notices may quote rows
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, connectError(config, err)
	}
	return conn, nil
}

// checkEncryption refuses to leave it to the server whether records are encrypted on a
// network, as PostgreSQL's clients do without sslmode.
func checkEncryption(config *pgconn.Config) error {
	encrypted, open := false, false
	note := func(host string, with *tls.Config) {
		if ip := net.ParseIP(host); strings.HasPrefix(host, "/") || host == "localhost" ||
			ip != nil && ip.IsLoopback() {
			return
		}
		encrypted, open = encrypted || with != nil, open || with == nil
	}
	note(config.Host, config.TLSConfig)
	for _, f := range config.Fallbacks {
		note(f.Host, f.TLSConfig)
	}
	if encrypted && open {
		return errors.New("sql: the connection string leaves it to the server whether the connection is encrypted;" +
			" write sslmode=verify-full, or sslmode=disable on a network that is encrypted itself")
	}
	return nil
}

// read asks in a transaction that sees one state of the database and can only read it.
func read(ctx context.Context, conn *pgconn.PgConn, s *partition.Schema, c Config,
	o tabular.Options) (*partition.Table, error) {
	begin := fmt.Sprintf("begin isolation level repeatable read, read only; set local statement_timeout = %d; "+
		// Floats as the fewest digits that bring them back, times in one form wherever the server stands.
		"set local extra_float_digits = 3; set local datestyle = 'ISO, YMD'; set local timezone = 'UTC'",
		c.Timeout.Milliseconds())
	if _, err := conn.Exec(ctx, begin).ReadAll(); err != nil {
		return nil, queryError("begin a transaction that reads", err)
	}
	statement, err := conn.Prepare(ctx, "rows", c.Query, nil)
	if err != nil {
		return nil, prepareError(c.Query, err)
	}
	if len(statement.ParamOIDs) > 0 {
		return nil, errors.New("sql.query: it has parameters ($1), which nothing fills; write the values into it")
	}
	if len(statement.Fields) == 0 {
		return nil, errors.New("sql.query: it gives no columns; use a SELECT")
	}
	columns, err := describe(ctx, conn, statement.Fields)
	if err != nil {
		return nil, err
	}
	builder, err := tabular.NewBuilder(s, sourceName, tabular.FromSQL, columns, o)
	if err != nil {
		return nil, err
	}
	rows := conn.ExecPrepared(ctx, "rows", nil, nil, nil) // results as text
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

// sorted orders the rows by their cells, from the first column on, then by unit.
func sorted(t *partition.Table) *partition.Table {
	rows := make([]int, t.Len())
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		// Equal cells are the same bits, and NaN, an empty cell, comes before any number.
		return cmp.Or(slices.Compare(t.Cells(a), t.Cells(b)), cmp.Compare(t.Unit(a), t.Unit(b)))
	})
	return t.Subset(rows)
}
