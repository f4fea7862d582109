// Command reading measures how fast a CSV file is read and checked against its schema, beside pandas in the same run.
// See README.md.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/partition/tabular"
)

//go:embed pandas.py
var script string

// result is what is printed. The seconds are the least of all turns.
type result struct {
	Rows    int     `json:"rows"`
	Columns int     `json:"columns"`
	Bytes   int64   `json:"bytes"`
	Cores   int     `json:"cores"`
	Seconds float64 `json:"seconds"`
	Pandas  *pandas `json:"pandas,omitempty"`
	// Ratio is our seconds over those of pandas.
	Ratio float64 `json:"ratio,omitempty"`
}

type pandas struct {
	Version string  `json:"pandas"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
}

func main() {
	root := &cobra.Command{Use: "reading [flags]", Short: "read a CSV file beside pandas"}
	rows := root.Flags().Int("rows", 2_000_000, "rows of the table")
	turns := root.Flags().Int("turns", 5, "how often each reads the file, in turn")
	python := root.Flags().String("python", "/usr/bin/python3", "Python with pandas; empty to measure without")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *rows < 1 || *turns < 1 {
			return cli.Misuse("--rows and --turns: use at least 1")
		}
		return compare(c.Context(), *rows, *turns, *python)
	}
	cli.Main(root)
}

// compare writes a table and reads it in turn.
func compare(ctx context.Context, rows, turns int, python string) error {
	s, err := schema()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "reading")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "table.csv")
	if err := write(path, rows); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var ours, theirs []float64
	r := result{Rows: rows, Columns: len(s.Columns), Bytes: info.Size(), Cores: runtime.GOMAXPROCS(0)}
	for range turns {
		runtime.GC()
		begin := time.Now()
		if _, err := tabular.Read(s, path, tabular.Options{}); err != nil {
			return err
		}
		ours = append(ours, time.Since(begin).Seconds())
		if python == "" {
			continue
		}
		if r.Pandas, err = readPandas(ctx, python, path); err != nil {
			return err
		}
		theirs = append(theirs, r.Pandas.Seconds)
	}
	r.Seconds = slices.Min(ours)
	if r.Pandas != nil {
		r.Pandas.Seconds = slices.Min(theirs)
		r.Ratio = r.Seconds / r.Pandas.Seconds
	}
	return cli.PrintJSON(r)
}

func readPandas(ctx context.Context, python, path string) (*pandas, error) {
	names := map[string]string{}
	for i := range columns {
		names[columns[i].name] = columns[i].names()
	}
	c := exec.CommandContext(ctx, python, "-c", script, path, names["dose"], names["age"]+","+names["flag"],
		names["ward"])
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("pandas: %w; install it, as in Debian's package python3-pandas, or give --python ''",
			err)
	}
	p := new(pandas)
	if err := json.Unmarshal(out, p); err != nil {
		return nil, fmt.Errorf("pandas: %w", err)
	}
	return p, nil
}
