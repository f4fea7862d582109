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

// rowsCommand measures reading, encoding and sums of a table separately, and their memory.
func rowsCommand() *cobra.Command {
	top := &cobra.Command{Use: "rows [flags]", Short: "compare reading a table with pandas, and measure sums over it"}
	rows := top.Flags().IntSlice("rows", []int{1_000_000}, "comma-separated numbers of rows")
	dir := top.Flags().String("dir", "", "folder for the tables, removed afterwards; empty: a temporary one")
	python := top.Flags().String("python", "/usr/bin/python3", "Python with pandas; empty to skip pandas")
	top.RunE = func(c *cobra.Command, _ []string) error { return measureRows(c.Context(), *rows, *dir, *python) }
	generate := &cobra.Command{Use: "make FILE", Args: cobra.ExactArgs(1),
		Short: "write a table of 22 columns and its schema: CSV if FILE ends in .csv, otherwise Parquet"}
	one := generate.Flags().Int("rows", 1_000_000, "number of rows")
	persons := generate.Flags().Bool("persons", false, "add a unit column of persons with four records each on "+
		"average; only the start uses it, sums count each record")
	generate.RunE = func(_ *cobra.Command, args []string) error { return writeTable(args[0], *one, *persons) }
	work := &cobra.Command{Use: "measure FILE WHAT", Short: "measure one kind of work on a table in this process",
		Args: cobra.ExactArgs(2)}
	work.RunE = func(c *cobra.Command, args []string) error {
		r, err := measure(c.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		return cli.PrintJSON(r)
	}
	count := &cobra.Command{Use: "database", Args: cobra.NoArgs,
		Short: "compare counting in a database with reading its rows; " + dsnVariable + " is its connection string"}
	many := count.Flags().Int("rows", 1_000_000, "number of rows of the table to create there")
	count.RunE = func(c *cobra.Command, _ []string) error { return database(c.Context(), *many) }
	show := &cobra.Command{Use: "show FILE", Args: cobra.ExactArgs(1),
		Short: "print measurements as Markdown; FILE is the output of a measurement"}
	show.RunE = func(c *cobra.Command, args []string) error { return showRows(c.OutOrStdout(), args[0]) }
	top.AddCommand(generate, work, count, show)
	return top
}

// turns is how often CSV, Parquet and pandas read the smallest table, alternately.
const turns = 3

// measureRows measures each kind of work on tables of these sizes, each in its own process.
func measureRows(ctx context.Context, rows []int, dir, python string) error {
	dir, err := os.MkdirTemp(dir, "rows")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, n := range rows {
		csv, parquet := filepath.Join(dir, "table.csv"), filepath.Join(dir, "table.parquet")
		if err := writeTable(parquet, n, false); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
		if i == 0 {
			if err := writeTable(csv, n, false); err != nil {
				return fmt.Errorf("write the table: %w", err)
			}
			for range turns {
				if err := readers(ctx, csv, parquet, python); err != nil {
					return err
				}
			}
			if err := apart(ctx, parquet, pairs); err != nil {
				return err
			}
		}
		for _, what := range []string{reading, encoding, start, marginals, embed} {
			if err := apart(ctx, parquet, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// readers reads a table by each way once.
func readers(ctx context.Context, csv, parquet, python string) error {
	for _, path := range []string{csv, parquet} {
		for _, what := range []string{whole, reading} {
			if err := apart(ctx, path, what); err != nil {
				return err
			}
		}
	}
	if python == "" {
		return nil
	}
	r, err := readPandas(ctx, python, csv)
	if err != nil {
		return err
	}
	return cli.PrintJSON(r)
}

// apart measures in a separate process, whose memory is that of the work alone.
func apart(ctx context.Context, path, what string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, "rows", "measure", path, what)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r := new(result)
	if err := json.Unmarshal(out, r); err != nil {
		return err
	}
	return cli.PrintJSON(r)
}
