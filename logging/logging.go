// Package logging makes the logs of the roles: zap, readable on a terminal and
// JSON elsewhere. Logs never hold a record, a column's value, a vote or a sum.
package logging

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// Config says what is logged to standard error, and how.
type Config struct {
	// Level is debug, info, warn or error. Default info.
	Level string `yaml:"level"`
	// Format is json, console, or auto: console on a terminal, else JSON.
	// Default auto.
	Format string `yaml:"format"`
}

// DefaultConfig returns the defaults named at each field.
func DefaultConfig() Config { return Config{Level: "info", Format: Auto} }

// Formats of a log.
const (
	Auto    = "auto"
	JSON    = "json"
	Console = "console"
)

// New returns a logger to standard error. level is debug, info, warn or error;
// format is one of the formats, Auto choosing by whether standard error is a
// terminal.
func New(level, format string) (*zap.Logger, error) {
	at, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error", level)
	}
	var encoder zapcore.Encoder
	if format == Auto {
		format = JSON
		if term.IsTerminal(int(os.Stderr.Fd())) {
			format = Console
		}
	}
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime = zapcore.ISO8601TimeEncoder
	switch format {
	case JSON:
		encoder = zapcore.NewJSONEncoder(c)
	case Console:
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(c)
	default:
		return nil, fmt.Errorf("log format %q: use auto, json or console", format)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), at)), nil
}
