package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// PrintJSON prints a result as one line on standard output.
func PrintJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	_, err = fmt.Println(string(raw))
	return err
}

// Warn prints a warning to standard error.
func Warn(sentence string) { fmt.Fprintln(os.Stderr, "warning: "+sentence) }

// Columns aligns lines of tab-separated cells on standard output. Cells may contain foreign text.
func Columns() *tabwriter.Writer {
	return tabwriter.NewWriter(text.PlainWriter(os.Stdout), 0, 0, 2, ' ', 0)
}

// Dash replaces an empty cell in a line of [Columns].
func Dash(s string) string { return cmp.Or(s, "-") }
