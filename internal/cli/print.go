package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
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

// Columns aligns lines of cells, which tabs separate, on standard output.
func Columns() *tabwriter.Writer { return tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0) }

// Dash stands for an empty cell in a line of [Columns].
func Dash(s string) string { return cmp.Or(s, "-") }
