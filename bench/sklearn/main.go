// Command sklearn makes the figures of scikit-learn that the tests of
// evaluate/classify compare with. See README.md.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

//go:embed reference.py
var script string

// fixture is a small made-up table. Its values are multiples of 1/64, so that
// float32 holds them.
type fixture struct {
	X        [][]float64 `json:"x"`
	Positive []int       `json:"positive"`
	Weight   []int       `json:"weight"`
}

func main() {
	data := flag.String("data", filepath.Join("..", "shared", "data"), "folder of the data sets")
	sets := flag.String("sets", "breast_cancer_wisconsin,adult,credit,flchain", "data sets, separated by commas")
	python := flag.String("python", "/usr/bin/python3", "Python with scikit-learn")
	out := flag.String("out", filepath.Join("evaluate", "classify", "testdata", "sklearn.json"), "file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *data, strings.Split(*sets, ","), *python, *out); err != nil {
		fmt.Fprintln(os.Stderr, "sklearn:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, data string, sets []string, python, out string) error {
	dir, err := os.MkdirTemp("", "sklearn")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, set := range sets {
		if err := dump(filepath.Join(data, set), filepath.Join(dir, set)); err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
	}
	text, err := json.Marshal(makeFixture())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "fixture.json"), text, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, python, "-c", script, dir, strings.Join(sets, ","))
	cmd.Stderr = os.Stderr
	figures, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run reference.py with %s: %w", python, err)
	}
	return os.WriteFile(out, figures, 0o644)
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
		table, err := partition.ReadCSV(schema, filepath.Join(from, part+".csv.gz"), partition.ReadOptions{})
		if err != nil {
			return err
		}
		rows := partition.NewEncoder(schema).Encode(table)
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
