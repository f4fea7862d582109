package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition"
)

func sample(_ context.Context, args []string) error {
	f := flags("sample", "sample --model DIR/model --rows N --out FILE [--where label=1]")
	dir := f.String("model", "", "model folder of a finished run")
	rows := f.Int("rows", 1000, "number of rows")
	out := f.String("out", "", "CSV file to write, - for standard output; of images also a .png to look at, or an idx file with images in its name")
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
	free := func(path string) error {
		if err := outsideModel(path, *dir); err != nil {
			return err
		}
		if _, err := os.Lstat(path); path != "-" && err == nil && !*force {
			return fmt.Errorf("%s exists; name another file, or add --force to replace it", path)
		}
		return nil
	}
	if err := free(*out); err != nil {
		return err
	}
	model, err := pipeline.LoadModel(*dir)
	if err != nil {
		return err
	}
	kind := sampleCSV
	if model.Schema.Image == nil && strings.HasSuffix(strings.ToLower(*out), ".png") {
		return fmt.Errorf("%s: the model makes rows of a table, of which there is no picture; name a CSV file", *out)
	}
	if model.Schema.Image != nil {
		if kind, err = kindOfSample(*out); err != nil {
			return err
		}
	}
	paths := []string{*out}
	if kind == sampleIDX {
		labels, err := partition.LabelsPath(*out)
		if err != nil {
			return err
		}
		if err := free(labels); err != nil {
			return err
		}
		paths = append(paths, labels)
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
	files, err := encodeSample(table, kind, *out)
	if err != nil {
		return err
	}
	for i, path := range paths {
		if err := os.WriteFile(path, files[i], 0o644); err != nil {
			return fmt.Errorf("write the sample: %w", err)
		}
	}
	if *format == "json" {
		answer := map[string]any{"rows": *rows, "output": *out}
		if kind == sampleIDX {
			answer["labels"] = paths[1]
		}
		return printJSON(answer)
	}
	fmt.Printf("%d synthetic rows in %s\n", *rows, strings.Join(paths, " and "))
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
