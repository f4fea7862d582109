package postgres

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Config says which database to ask, and what.
type Config struct {
	// DSNFile is the path of a file with the connection string, a URL
	// (postgres://user:password@host/database?sslmode=verify-full) or words (host=... user=...).
	// It holds the password, so give it mode 0600, or take it from a mounted secret. A
	// connection without sslmode is encrypted only where the server offers it: use verify-full.
	DSNFile string `yaml:"dsn_file"`
	// DSNEnv is the name of an environment variable with the connection string, in place of
	// DSNFile. Easier to pass on, but whoever may look at the process can read it.
	DSNEnv string `yaml:"dsn_env"`
	// Query gives the site's rows, with the schema's columns by name, in any order. It is
	// one SELECT (or VALUES, TABLE, WITH): anything that writes is refused by the server.
	Query string `yaml:"query"`
	// Timeout ends a query that takes longer, and a connection that is not made. Default:
	// 10m. Longer for tables of many millions of rows, shorter to spare a database that others use.
	Timeout time.Duration `yaml:"timeout"`
	// Pushdown has the database count, for each question, and no row leaves it. Only questions of the pipeline
	// marginals and of the figure of quality are answered then. Default: false, and the rows are read.
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
		errs = append(errs, errors.New("sql.dsn_file: sql.dsn_env is given too; keep one of them"))
	case strings.ContainsAny(c.DSNEnv, "= \x00"):
		// Not repeated: it may be the connection string itself.
		errs = append(errs, errors.New("sql.dsn_env: not the name of an environment variable;"+
			" put the connection string into a variable and give its name"))
	}
	if strings.TrimSpace(c.Query) == "" {
		errs = append(errs, errors.New("sql.query: missing; give the SELECT for the site's rows"))
	}
	if c.Timeout < time.Second || c.Timeout > maxTimeout {
		errs = append(errs, fmt.Errorf("sql.timeout: %v is not from 1s to %v", c.Timeout, maxTimeout))
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
		return "", fmt.Errorf("read the connection string: %w; check the path and who may read it", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDSN+1))
	if err != nil {
		return "", fmt.Errorf("read the connection string: %w; check the path and who may read it", err)
	}
	dsn := strings.TrimSpace(strings.TrimPrefix(string(raw), "\ufeff"))
	if dsn == "" || len(raw) > maxDSN || strings.ContainsAny(dsn, "\r\n\x00") {
		return "", fmt.Errorf("%s: not a connection string;"+
			" write one line such as postgres://user:password@host/database?sslmode=verify-full", c.DSNFile)
	}
	return dsn, nil
}
