// Package logging makes the logs of the roles: zap, readable on a terminal and JSON elsewhere. Logs never contain a
// record, a column's value, a vote or a sum.
package logging

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// Config says what is logged, and how. Logs go to standard error.
type Config struct {
	// Level is the least severe level that is logged.
	Level string `yaml:"level"`
	// Format is the form of each line. `auto` means `console` on a terminal and `json` elsewhere.
	Format string `yaml:"format"`
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config { return Config{Level: "info", Format: Auto} }

// Validate reports the errors of New.
func (c Config) Validate() error {
	switch c.Level {
	case "debug", "info", "warn", "error":
	default:
		return fmt.Errorf("log.level: %q is unknown; use debug, info, warn or error", c.Level)
	}
	switch c.Format {
	case Auto, JSON, Console:
	default:
		return fmt.Errorf("log.format: %q is unknown; use auto, json or console", c.Format)
	}
	return nil
}

// Formats of a log.
const (
	Auto    = "auto"
	JSON    = "json"
	Console = "console"
)

// New returns a logger to standard error. Format Auto chooses by whether
// standard error is a terminal.
func New(c Config) (*zap.Logger, error) {
	log, _, err := NewLeveled(c)
	return log, err
}

// NewLeveled is New for a process that runs for long: the level it returns can be
// changed while the log is in use.
func NewLeveled(c Config) (*zap.Logger, zap.AtomicLevel, error) {
	if err := c.Validate(); err != nil {
		return nil, zap.AtomicLevel{}, err
	}
	at, err := zap.ParseAtomicLevel(c.Level)
	if err != nil {
		return nil, zap.AtomicLevel{}, fmt.Errorf("log: %w", err)
	}
	console := c.Format == Console || c.Format == Auto && term.IsTerminal(int(os.Stderr.Fd()))
	e := zap.NewProductionEncoderConfig()
	e.EncodeTime = zapcore.ISO8601TimeEncoder
	encoder := zapcore.NewJSONEncoder(e)
	if console {
		e.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(e)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), at)), at, nil
}
