// Command rows measures a node that streams its table: reading, encoding and sums apart from each other, and memory.
// See README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func main() {
	root := &cobra.Command{Use: "rows [flags]", Short: "measure a table that is read in blocks"}
	rows := root.Flags().IntSlice("rows", []int{1_000_000}, "rows of the tables, with commas between")
	dir := root.Flags().String("dir", "", "folder for the tables, which are removed; empty for a temporary one")
	root.RunE = func(c *cobra.Command, _ []string) error { return all(c.Context(), *rows, *dir) }
	generate := &cobra.Command{Use: "make FILE", Short: "write a table of 22 columns to a Parquet file, and its schema",
		Args: cobra.ExactArgs(1)}
	one := generate.Flags().Int("rows", 1_000_000, "rows of the table")
	persons := generate.Flags().Bool("persons", false, "a column of persons, with four records each in the mean, "+
		"which start finds; sums take each record for a person")
	generate.RunE = func(_ *cobra.Command, args []string) error { return write(args[0], *one, *persons) }
	work := &cobra.Command{Use: "measure FILE WHAT", Short: "do one kind of work on a table in this process",
		Args: cobra.ExactArgs(2)}
	work.RunE = func(c *cobra.Command, args []string) error {
		r, err := measure(c.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		return cli.PrintJSON(r)
	}
	count := &cobra.Command{Use: "database", Args: cobra.NoArgs,
		Short: "measure a database that counts beside reading its rows; " + dsnVariable + " is its connection string"}
	many := count.Flags().Int("rows", 1_000_000, "rows of the table that is made there")
	count.RunE = func(c *cobra.Command, _ []string) error { return database(c.Context(), *many) }
	root.AddCommand(generate, work, count)
	cli.Main(root)
}

// all measures each kind of work on tables of so many rows, in a process of its own.
func all(ctx context.Context, rows []int, dir string) error {
	dir, err := os.MkdirTemp(dir, "rows")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, n := range rows {
		path := filepath.Join(dir, "table.parquet")
		if err := write(path, n, false); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
		for _, what := range []string{reading, encoding, start, marginals, embed} {
			r, err := apart(ctx, path, what)
			if err != nil {
				return err
			}
			if err := cli.PrintJSON(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// apart measures in a process of its own, whose memory is that of the work alone.
func apart(ctx context.Context, path, what string) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, "measure", path, what)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r := new(result)
	return r, json.Unmarshal(out, r)
}
