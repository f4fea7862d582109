package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline"
)

func sample(_ context.Context, args []string) error {
	f := flags("sample", "sample --model DIR/model --rows N --out FILE [--where label=1]")
	dir := f.String("model", "", "model folder of a finished run")
	rows := f.Int("rows", 1000, "number of rows")
	out := f.String("out", "", "CSV file to write, - for standard output")
	where := f.String("where", "", "draw one class only, as label=value")
	seed := f.Uint64("seed", 0, "repeat a draw; 0 draws anew each time")
	force := f.Bool("force", false, "replace --out where it exists")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *out == "" {
		return misuse(f, "--model and --out are needed")
	}
	if *rows < 1 || *rows > pipeline.MaxRows {
		return misuse(f, "--rows %d: ask for 1 to %d, and again for more", *rows, pipeline.MaxRows)
	}
	if err := outsideModel(*out, *dir); err != nil {
		return err
	}
	if _, err := os.Lstat(*out); *out != "-" && err == nil && !*force {
		return fmt.Errorf("%s exists; name another file, or add --force to replace it", *out)
	}
	model, err := pipeline.LoadModel(*dir)
	if err != nil {
		return err
	}
	class := pipeline.AnyClass
	if *where != "" {
		column, value, ok := strings.Cut(*where, "=")
		if !ok {
			return misuse(f, "--where %q: write label=value", *where)
		}
		if class, err = model.Class(column, value); err != nil {
			return err
		}
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	table, err := model.Sample(*rows, class, rand.New(rand.NewPCG(*seed, 0x5a3e)))
	if err != nil {
		return err
	}
	if *out == "-" {
		return partition.WriteCSV(os.Stdout, table)
	}
	var b bytes.Buffer
	if err := partition.WriteCSV(&b, table); err != nil {
		return err
	}
	if err := os.WriteFile(*out, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the sample: %w", err)
	}
	if *format == "json" {
		return printJSON(map[string]any{"rows": *rows, "output": *out})
	}
	fmt.Printf("%d synthetic rows in %s\n", *rows, *out)
	return nil
}

// outsideModel refuses an output that is one of the model's own files, by
// whatever path: the model could never be read again.
func outsideModel(out, dir string) error {
	target, err := os.Stat(out)
	if err != nil {
		return nil // a new file, or an error when it is written
	}
	for _, path := range pipeline.ModelFiles(dir) {
		if own, err := os.Stat(path); err == nil && os.SameFile(own, target) {
			return fmt.Errorf("--out %s is a file of the model; name another", out)
		}
	}
	return nil
}
