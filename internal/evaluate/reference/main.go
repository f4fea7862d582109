// Command reference makes the figures of scikit-learn, SciPy and NumPy with which tests of internal/evaluate
// compare. See README.md.
package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/tabular"
)

//go:embed *.py
var scripts embed.FS

// classifiers is the script that needs data sets.
const classifiers = "classifiers"

// outputs are the files that scripts write, below internal/evaluate.
var outputs = []struct{ script, file string }{
	{"measure", "measure/testdata/reference.json"},
	{"weighted", "weighted/testdata/reference.json"},
	{"regressors", "classify/testdata/regressors.json"},
	{classifiers, "classify/testdata/sklearn.json"},
}

// fixture is a small made-up table. Its values are multiples of 1/64, so that
// float32 holds them.
type fixture struct {
	X        [][]float64 `json:"x"`
	Positive []int       `json:"positive"`
	Weight   []int       `json:"weight"`
}

func main() { cli.Main(command()) }

func command() *cobra.Command {
	c := &cobra.Command{
		Use:   "reference [SCRIPT...] [flags]",
		Short: "make the figures that tests of internal/evaluate compare with",
		Long:  "Runs the scripts measure, weighted, regressors and classifiers, or those that are named.",
	}
	for _, o := range outputs {
		c.ValidArgs = append(c.ValidArgs, o.script)
	}
	c.Args = cobra.OnlyValidArgs
	data := c.Flags().String("data", filepath.Join("..", "shared", "data"), "`folder` of the data sets of classifiers")
	sets := c.Flags().StringSlice("sets", []string{"breast_cancer_wisconsin", "adult", "credit", "flchain"},
		"their names")
	python := c.Flags().String("python", "/usr/bin/python3", "Python with scikit-learn")
	out := c.Flags().String("out", filepath.Join("internal", "evaluate"), "`folder` that the files are written below")
	c.RunE = func(c *cobra.Command, chosen []string) error {
		if len(chosen) == 0 {
			chosen = c.ValidArgs
		}
		for _, o := range outputs {
			if !slices.Contains(chosen, o.script) {
				continue
			}
			if err := write(c.Context(), *python, o.script, filepath.Join(*out, o.file), *data, *sets); err != nil {
				return fmt.Errorf("%s: %w", o.script, err)
			}
		}
		return nil
	}
	return c
}

// write runs a script that writes a file.
func write(ctx context.Context, python, script, out, data string, sets []string) error {
	text, err := scripts.ReadFile(script + ".py")
	if err != nil {
		return err
	}
	args := []string{"-c", string(text), out}
	if script == classifiers {
		dir, err := os.MkdirTemp("", "reference")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := dumpAll(data, sets, dir); err != nil {
			return err
		}
		args = append(args, dir, strings.Join(sets, ","))
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s.py with %s: %w", script, python, err)
	}
	return nil
}

// dumpAll writes what classifiers.py reads: data sets, and the made-up table.
func dumpAll(data string, sets []string, dir string) error {
	for _, set := range sets {
		if err := dump(filepath.Join(data, set), filepath.Join(dir, set)); err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
	}
	text, err := json.Marshal(makeFixture())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "fixture.json"), text, 0o644)
}

// dump writes the encoded features of both tables of a data set: their number of
// columns, then row after row, then the classes, 1 for the positive one, all
// float32 in little endian.
func dump(from, to string) error {
	schema, err := partition.LoadSchema(filepath.Join(from, "schema.yaml"))
	if err != nil {
		return err
	}
	for _, part := range []string{"train", "test"} {
		table, err := tabular.ReadCSV(schema, filepath.Join(from, part+".csv.gz"), tabular.Options{})
		if err != nil {
			return err
		}
		rows := encode.New(schema).Encode(table)
		labels := make([]float32, rows.Len())
		for i, c := range rows.Classes {
			if c == schema.Positive() {
				labels[i] = 1
			}
		}
		var b bytes.Buffer
		for _, numbers := range [][]float32{{float32(rows.Width)}, rows.Features, labels} {
			if err := binary.Write(&b, binary.LittleEndian, numbers); err != nil {
				return err
			}
		}
		if err := os.WriteFile(to+"-"+part, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func makeFixture() fixture {
	rng := rand.New(rand.NewPCG(1, 2))
	var f fixture
	for range 160 {
		a, b, c := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
		flag := 0.0
		if rng.Float64() < 0.4 {
			flag = 1
		}
		row := []float64{a, 10 + 3*b, a/2 + c, flag, math.Abs(b * c)}
		for j, v := range row {
			row[j] = math.Round(64*v) / 64
		}
		label := 0
		if rng.Float64() < 1/(1+math.Exp(-(1.5*a-b+flag+b*c-0.5))) {
			label = 1
		}
		f.X = append(f.X, row)
		f.Positive = append(f.Positive, label)
		f.Weight = append(f.Weight, rng.IntN(4))
	}
	return f
}
