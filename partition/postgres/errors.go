package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Error is a refusal by the server or the network. It contains no cell, no password, and no text from the server
// except about the query itself.
type Error struct {
	Code    string // PostgreSQL's SQLSTATE, or empty
	Problem string
	Fix     string
	cause   error // context.Canceled and the like, never the server's or the driver's error
}

// Error returns one line: problem, code and fix.
func (e *Error) Error() string {
	text := "sql: " + e.Problem
	if e.Code != "" {
		text += " (SQLSTATE " + e.Code + ")"
	}
	return text + "; " + e.Fix
}

// Unwrap returns the cause if it is an error of package context.
func (e *Error) Unwrap() error { return e.cause }

// contextError is the error of package context behind err, or nil.
func contextError(err error) error {
	for _, e := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return e
		}
	}
	return nil
}

// connectError explains why there is no connection. The driver's message has the user's and the database's name, and
// the server's message may have anything.
func connectError(config *pgconn.Config, err error) error {
	e := &Error{
		Problem: fmt.Sprintf("no connection to %s, port %d", config.Host, config.Port),
		Fix:     "check host, port and network", cause: contextError(err),
	}
	var server *pgconn.PgError
	var unknown *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.As(err, &server):
		e.Code = server.Code
		e.Problem, e.Fix = words(server.Code, "the server refused the connection")
	case errors.As(err, &unknown):
		e.Problem += ": its certificate is not trusted"
		e.Fix = "give sslrootcert in the connection string, and the host by the name in the certificate"
	case errors.As(err, &dns):
		e.Problem += ": there is no such host"
	}
	return e
}

// prepareError explains what is wrong with the query, before it sees a row. The server's message is then about the
// query's own text.
func prepareError(query string, err error) error {
	var server *pgconn.PgError
	if !errors.As(err, &server) || len(server.Code) < 2 || server.Code[:2] != "42" {
		return queryError("prepare the query", err)
	}
	e := &Error{Code: server.Code, Problem: "sql.query: " + server.Message, Fix: "correct the query"}
	if server.Position > 0 && int(server.Position) <= len(query) {
		e.Problem = fmt.Sprintf("sql.query, character %d: %s", server.Position, server.Message)
	}
	if server.Code == codePrivilege {
		_, e.Fix = words(server.Code, "")
	}
	return e
}

// queryError explains why a query ended. The server's message may contain rows.
func queryError(doing string, err error) error {
	e := &Error{
		Problem: "cannot " + doing + ": the connection was lost or the time was up",
		Fix:     "try again, with a longer sql.timeout if it was too short",
		cause:   contextError(err),
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		e.Code = server.Code
		e.Problem, e.Fix = words(server.Code, "cannot "+doing)
	}
	return e
}

const (
	codePrivilege = "42501"
	codeReadOnly  = "25006"
	codeTimeout   = "57014"
)

// words explains a code from PostgreSQL's errcodes.txt.
func words(code, otherwise string) (problem, fix string) {
	switch code {
	case "28P01", "28000":
		return "the server refused the user, the password or the connection", "correct the connection string," +
			" or the server's pg_hba.conf"
	case "3D000":
		return "there is no such database", "correct the connection string"
	case "53300", "57P03":
		return "the server does not accept connections now", "try again later"
	case codePrivilege:
		return "the user may not read the tables of the query", "grant it SELECT on these tables, and nothing else"
	case codeReadOnly:
		return "the query would write, but its transaction is read-only", "use a query that only reads"
	case codeTimeout:
		return "the query took longer than sql.timeout, or was cancelled", "make it faster or sql.timeout longer"
	case "40001":
		return "the server, a standby, dropped rows that the query still read", "try again, or ask the primary server"
	case "57P01":
		return "the server was stopped, or ended the connection", "try again later"
	}
	if len(code) == 5 && code[:2] == "22" {
		return "the query cannot compute a value of some row", "run it by hand, where the server's error may be " +
			"shown, and correct it"
	}
	return otherwise, "run the query by hand, where the server's error may be shown"
}
