package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conclave-dp/conclave/partition/tabular"
)

// session is a read-only transaction that sees one state of the database.
type session struct {
	ctx    context.Context // of all its statements
	conn   *pgconn.PgConn
	config Config
	end    func()
}

// begin connects and starts a transaction for a number of slow statements.
func (c Config) begin(ctx context.Context, statements int) (*session, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dsn, err := c.dsn()
	if err != nil {
		return nil, err
	}
	// Slightly more than the server's own limit, which gives a better error.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(statements)*c.Timeout+10*time.Second)
	conn, err := connect(ctx, dsn, c.Timeout)
	if err != nil {
		cancel()
		return nil, err
	}
	in := &session{ctx: ctx, conn: conn, config: c, end: func() {
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_ = conn.Close(closing) // the transaction changes nothing
		done()
		cancel()
	}}
	begin := fmt.Sprintf("begin isolation level repeatable read, read only; set local statement_timeout = %d; "+
		// Floats with the fewest digits that restore them, times in one form wherever the server is.
		"set local extra_float_digits = 3; set local datestyle = 'ISO, YMD'; set local timezone = 'UTC'",
		c.Timeout.Milliseconds())
	if _, err := conn.Exec(ctx, begin).ReadAll(); err != nil {
		in.end()
		return nil, queryError("begin a transaction that reads", err)
	}
	return in, nil
}

// columns prepares the query under the name rows and returns its columns. No row is read.
func (in *session) columns() ([]tabular.SourceColumn, error) {
	fields, err := in.fields()
	if err != nil {
		return nil, err
	}
	return describe(in.ctx, in.conn, fields)
}

func (in *session) fields() ([]pgconn.FieldDescription, error) {
	statement, err := in.conn.Prepare(in.ctx, "rows", in.config.Query, nil)
	if err != nil {
		return nil, prepareError(in.config.Query, err)
	}
	if len(statement.ParamOIDs) > 0 {
		return nil, errors.New("sql.query: it has parameters ($1); write their values into the query")
	}
	if len(statement.Fields) == 0 {
		return nil, errors.New("sql.query: it gives no columns; use a SELECT")
	}
	return statement.Fields, nil
}

func connect(ctx context.Context, dsn string, timeout time.Duration) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil { // its text may contain the password
		return nil, errors.New("sql: the connection string is not valid, or its certificate cannot be read; compare " +
			"it with postgres://user:password@host/database?sslmode=verify-full")
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

// checkEncryption refuses to let the server decide whether a network connection is encrypted, as PostgreSQL clients
// do without sslmode.
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
		return errors.New("sql: the connection string does not require encryption; use sslmode=verify-full, or " +
			"sslmode=disable on an encrypted network")
	}
	return nil
}
