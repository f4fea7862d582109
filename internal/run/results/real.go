package results

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Evaluate names real rows to measure against. NOT PRIVATE.
type Evaluate struct {
	// Test is real rows or images that the report compares with. They stay on the student's machine, and what is
	// computed from them is **NOT PRIVATE**.
	Test string `yaml:"test"`
	// Train is the real rows of the training. The same classifiers trained on them are the ceiling, and closeness is
	// measured to them; images have the ceiling only. It needs `test`.
	Train string `yaml:"train"`
	// CoinFlips is the `synthetic.csv`, or the synthetic images, of the same run with `--votes coin`, the baseline. It
	// needs `test`.
	CoinFlips string `yaml:"coin_flips"`
	// Models are classifiers by name, or `[all]` for all twelve, which take some seconds on 6,000 rows and a minute on
	// 30,000. Images have a classifier of their own, a small convolutional network; leave this out. Default: logistic
	// regression and gradient boosting.
	Models []string `yaml:"models"`
	// HoldOut is the share of the privacy units on which no site trains, and with which the report compares. It applies
	// to `conclave local` with a table, if `test` names no rows; the comparison is **NOT PRIVATE**. The hash that
	// divides files among sites chooses the units by a public key: all rows of a unit are held out, or none. A folder
	// keeps the hold-out that its run began with. 0 holds out none. In a cluster nothing is held out.
	HoldOut float64 `yaml:"hold_out"`
}

// ModelNames are the names of the classifiers, nil for all.
func (e Evaluate) ModelNames() []string {
	switch {
	case len(e.Models) == 1 && e.Models[0] == "all":
		return nil
	case len(e.Models) > 0:
		return e.Models
	}
	var names []string
	for _, m := range classify.Models() {
		names = append(names, m.Name())
	}
	return names
}

// Real is what the report compares with, and the classifiers to use. Tables that the spec does not name are nil.
// NOT PRIVATE.
type Real struct {
	Test, Train *partition.Table
	CoinFlips   *partition.Table
	Models      []string // nil for all
	// HeldOut is the share of the units in Test; 0 if a file was named.
	HeldOut float64
	// Warnings describe oddities of the files that are not errors.
	Warnings []string
	// Images are the images with which a report of images compares, instead of tables.
	Images realImages
}

// HeldOut are real rows that a run held out of its training, and those on which it trained. NOT PRIVATE.
type HeldOut struct {
	Share       float64
	Test, Train *partition.Table
}

// LoadReal reads the real tables before anything is spent, so that a mistake
// in their paths costs nothing.
func LoadReal(e Evaluate, schema *partition.Schema) (Real, error) {
	r := Real{Models: e.ModelNames()}
	if schema.Image != nil {
		var err error
		r.Images, err = loadRealImages(e, schema)
		return r, err
	}
	for _, f := range []struct {
		path    string
		into    **partition.Table
		options tabular.Options
	}{
		{e.Test, &r.Test, tabular.Options{}}, {e.Train, &r.Train, tabular.Options{}},
		{e.CoinFlips, &r.CoinFlips, tabular.Options{IgnoreUnit: true, Weights: true}},
	} {
		if f.path == "" {
			continue
		}
		f.options.Warn = func(odd string) { r.Warnings = append(r.Warnings, odd) }
		t, err := tabular.Read(schema, f.path, f.options)
		if err != nil {
			return r, fmt.Errorf("rows for the report: %w", err)
		}
		*f.into = t
	}
	return r, nil
}
