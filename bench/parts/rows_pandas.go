package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

//go:embed pandas.py
var pandasProgram string

// readPandas reads a CSV file with pandas, each column with the type that the schema has.
func readPandas(ctx context.Context, python, path string) (*result, error) {
	var numbers, whole, categories []string
	for _, c := range columnsOf(false) {
		switch {
		case strings.HasPrefix(c.Name, "dose"):
			numbers = append(numbers, c.Name)
		case strings.HasPrefix(c.Name, "ward"):
			categories = append(categories, c.Name)
		default:
			whole = append(whole, c.Name)
		}
	}
	c := exec.CommandContext(ctx, python, "-I", "-c", pandasProgram, path, strings.Join(numbers, ","),
		strings.Join(whole, ","), strings.Join(categories, ","))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("pandas: %w; install it, as in Debian's package python3-pandas, or give --python ''",
			err)
	}
	r := &result{What: pandas, Format: "csv", Cores: 1}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("pandas: %w", err)
	}
	r.PerCore = float64(r.Rows) / r.CPU
	return r, nil
}
