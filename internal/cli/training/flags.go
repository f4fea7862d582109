package training

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// runFileName is the run.yaml made from flags, in the output folder.
const runFileName = "run.yaml"

// quickFlags replace a run.yaml: one file of rows, and defaults for everything that they omit.
type quickFlags struct {
	schema, pipeline, unit string
	epsilon, delta         float64
	records, rows          int
}

func (q *quickFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&q.schema, "schema", "", "schema.yaml of FILE: a public `file`")
	f.Float64Var(&q.epsilon, "epsilon", math.NaN(), "the run's budget")
	f.Lookup("epsilon").DefValue = "0" // hidden in help
	f.Float64Var(&q.delta, "delta", 0, "probability that the bound may fail (default: chosen from --records)")
	f.IntVar(&q.records, "records", 0, "public number of records; do not count them in the data")
	f.IntVar(&q.rows, "rows", 0, "number of synthetic rows (default 6000 for any table: the number costs no "+
		"privacy, and conclave sample draws more later)")
	f.StringVar(&q.pipeline, "pipeline", "",
		"training `method` (default: marginals for tables, embed with new labels for images)")
	f.StringVar(&q.unit, "unit", "", "protected unit: record, or the name of the schema's column with role unit "+
		"(default record)")
}

// given names the flags given that describe a run.
func (q *quickFlags) given(c *cobra.Command) (names []string) {
	for _, name := range []string{"schema", "epsilon", "delta", "records", "rows", "pipeline", "unit"} {
		if c.Flags().Changed(name) {
			names = append(names, "--"+name)
		}
	}
	return names
}

// text is the run.yaml for the flags, with absolute paths.
func (q *quickFlags) text(data string) ([]byte, error) {
	schema, err := filepath.Abs(q.schema)
	if err != nil {
		return nil, err
	}
	if data, err = filepath.Abs(data); err != nil {
		return nil, err
	}
	privacy := yaml.MapSlice{{Key: "epsilon", Value: q.epsilon}}
	set := func(to *yaml.MapSlice, key string, given bool, value any) {
		if given {
			*to = append(*to, yaml.MapItem{Key: key, Value: value})
		}
	}
	set(&privacy, "delta", q.delta != 0, q.delta)
	set(&privacy, "records", q.records != 0, q.records)
	set(&privacy, "unit", q.unit != "", q.unit)
	run := yaml.MapSlice{
		{Key: "name", Value: "local"}, {Key: "schema", Value: schema},
		{Key: "data", Value: []yaml.MapSlice{{{Key: "site", Value: "here"}, {Key: "file", Value: data}}}},
		{Key: "privacy", Value: privacy},
	}
	set(&run, "pipeline", q.pipeline != "", q.pipeline)
	set(&run, "release", q.rows != 0, yaml.MapSlice{{Key: "rows", Value: q.rows}})
	return yaml.Marshal(run)
}

// write writes the run.yaml to the output folder, and returns its path. An invalid one is not written, and a run that
// has begun keeps its own.
func (q *quickFlags) write(data, out string) (string, error) {
	if q.schema == "" || math.IsNaN(q.epsilon) {
		return "", cli.Misuse("--schema and --epsilon: both are required with a file of rows; or give a run.yaml " +
			"with --run")
	}
	if q.delta == 0 && q.records == 0 {
		return "", cli.Misuse("--delta or --records: one is required; give the public number of records with " +
			"--records (do not count them in the data), or a delta well below one over that number")
	}
	text, err := q.text(data)
	if err != nil {
		return "", err
	}
	path := filepath.Join(out, runFileName)
	spec, err := runfile.Read(string(text), "the flags")
	if err != nil {
		return "", err
	}
	if _, err := spec.LoadSchema(); err != nil {
		return "", err
	}
	switch have, err := os.ReadFile(path); {
	case err == nil && bytes.Equal(have, text):
		return path, nil
	case err == nil:
		if _, err := os.Stat(filepath.Join(out, "state")); err == nil {
			return "", fmt.Errorf("%s belongs to a run with other settings; continue that run with --run %s, or give "+
				"another folder with --out", out, path)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the run.yaml of an earlier start: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("create the output folder: %w; give a writable folder", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write the run.yaml: %w; give a writable folder", err)
	}
	return path, nil
}
