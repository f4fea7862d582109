package postgres

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Config says which database to ask, and what. Set it instead of `data`; docs/data-database.md shows how.
// The node reads the rows once, when it starts, unless `stream` or `pushdown` is set.
type Config struct {
	// DSNFile is the path of a file with the connection string on one line: a URL such as
	// `postgres://user:password@host/database?sslmode=verify-full`, or words such as `host=... user=...`. It holds the
	// password: give it mode 0600, or mount a secret. Without `sslmode` the connection is encrypted only if the server
	// offers it. Default: none, with `dsn_env`.
	DSNFile string `yaml:"dsn_file"`
	// DSNEnv is the name of an environment variable with the connection string. It is easier to pass on, but anyone who
	// can inspect the process can read it. Default: none, with `dsn_file`.
	DSNEnv string `yaml:"dsn_env"`
	// Query is one SELECT (or VALUES, TABLE, WITH) for the site's rows, with the schema's columns by name, in any
	// order. It runs in a transaction that can only read. Required.
	Query string `yaml:"query"`
	// Timeout is the longest that a query or a connection attempt may take. Use more for many millions of rows, less to
	// spare a database that others use.
	Timeout time.Duration `yaml:"timeout"`
	// Pushdown has the database count for each question (docs/data-database.md#the-database-counts), and no row leaves
	// it. The node then answers only the pipeline `marginals` and the figure of quality. Default: false.
	Pushdown bool `yaml:"pushdown"`
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config { return Config{Timeout: 10 * time.Minute} }

// Set reports whether anything differs from the defaults.
func (c Config) Set() bool { return c.DSNFile != "" || c.DSNEnv != "" || c.Query != "" || c.Pushdown }

// Validate reports every invalid field.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.DSNFile == "" && c.DSNEnv == "":
		errs = append(errs, errors.New("sql.dsn_file: missing; give the path of a file with the connection string,"+
			" or the name of an environment variable in sql.dsn_env"))
	case c.DSNFile != "" && c.DSNEnv != "":
		errs = append(errs, errors.New("sql.dsn_file: sql.dsn_env is set too; keep only one"))
	case strings.ContainsAny(c.DSNEnv, "= \x00"):
		// Not repeated: it may be the connection string itself.
		errs = append(errs, errors.New("sql.dsn_env: not the name of an environment variable;"+
			" put the connection string into a variable and give its name"))
	}
	if strings.TrimSpace(c.Query) == "" {
		errs = append(errs, errors.New("sql.query: missing; give the SELECT for the site's rows"))
	}
	if c.Timeout < time.Second || c.Timeout > maxTimeout {
		errs = append(errs, fmt.Errorf("sql.timeout: %v is not between 1s and %v", c.Timeout, maxTimeout))
	}
	return errors.Join(errs...)
}

// maxTimeout is the longest time that PostgreSQL can count in milliseconds, rounded down.
const maxTimeout = 24 * 24 * time.Hour

// maxDSN bounds the reading of a wrong file.
const maxDSN = 64 << 10

// dsn reads the connection string. No error contains any of it.
func (c Config) dsn() (string, error) {
	if c.DSNEnv != "" {
		dsn, there := os.LookupEnv(c.DSNEnv)
		if !there || strings.TrimSpace(dsn) == "" {
			return "", fmt.Errorf("the environment variable %s of sql.dsn_env is not set;"+
				" set it to the connection string", c.DSNEnv)
		}
		return strings.TrimSpace(dsn), nil
	}
	f, err := os.Open(c.DSNFile)
	if err != nil {
		return "", fmt.Errorf("read the connection string: %w; check the path and the permissions", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDSN+1))
	if err != nil {
		return "", fmt.Errorf("read the connection string: %w; check the path and the permissions", err)
	}
	dsn := strings.TrimSpace(strings.TrimPrefix(string(raw), "\ufeff"))
	if dsn == "" || len(raw) > maxDSN || strings.ContainsAny(dsn, "\r\n\x00") {
		return "", fmt.Errorf("%s: not a connection string;"+
			" write one line such as postgres://user:password@host/database?sslmode=verify-full", c.DSNFile)
	}
	return dsn, nil
}
