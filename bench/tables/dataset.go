package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// table is one of rows or images.
type table = partition.Table

// example is the data set that is part of the project.
const example = "flchain"

// dataset is where a data set lies, with its real rows.
type dataset struct {
	schemaPath, trainPath, testPath string
	train, test                     *table
	records                         int // at the sites, as runs state it
}

// openAll reads the data sets of groups, the example by way of a copy in scratch. One that is
// missing is left out, and said; it is an error if none is left.
func openAll(groups []group, dir, scratch string) (map[string]*dataset, error) {
	sets, missing := map[string]*dataset{}, map[string]bool{}
	needed := false
	for _, g := range groups {
		needed = needed || g.data != ""
		if g.data == "" || sets[g.data] != nil || missing[g.data] {
			continue
		}
		d, err := open(g, dir, scratch)
		switch {
		case errors.Is(err, os.ErrNotExist):
			missing[g.data] = true
			fmt.Fprintf(os.Stderr, "%s is left out: %v; name the folder of the data sets with --data\n", g.data, err)
		case err != nil:
			return nil, fmt.Errorf("data set %s: %w", g.data, err)
		default:
			sets[g.data] = d
		}
	}
	if needed && len(sets) == 0 {
		return nil, errors.New("no data set was found; name the folder of the data sets with --data")
	}
	return sets, nil
}

// open reads the data set of a group, or fails with os.ErrNotExist.
func open(g group, dir, scratch string) (*dataset, error) {
	folder := filepath.Join(scratch, example)
	if g.data == example {
		if err := os.CopyFS(folder, flchain.Files); err != nil {
			return nil, err
		}
	} else {
		var err error
		if folder, err = filepath.Abs(filepath.Join(dir, g.data)); err != nil {
			return nil, err
		}
	}
	d := &dataset{schemaPath: filepath.Join(folder, "schema.yaml")}
	if _, err := os.Stat(d.schemaPath); err != nil {
		return nil, err
	}
	schema, err := partition.LoadSchema(d.schemaPath)
	if err != nil {
		return nil, err
	}
	read := func(split string) (string, *table, error) {
		file := schema.Files[split].Path
		if g.images {
			file = schema.Files[split].Images
		}
		if file == "" {
			file = split + ".csv.gz"
		}
		path := filepath.Join(folder, file)
		rows, err := tabular.Read(schema, path, tabular.Options{})
		if err != nil {
			return "", nil, fmt.Errorf("%s: %v", split, err) // a schema without its rows is no missing set
		}
		return path, rows, nil
	}
	if d.trainPath, d.train, err = read(cmp.Or(g.train, "train")); err != nil {
		return nil, err
	}
	d.records = roundedUp(d.train.Len())
	d.testPath, d.test, err = read(cmp.Or(g.test, "test"))
	return d, err
}

// roundedUp is the next larger number of one digit and zeros: what a run may say of its number of records.
func roundedUp(records int) int {
	digit := 1
	for digit*10 <= records {
		digit *= 10
	}
	return (records/digit + 1) * digit
}
