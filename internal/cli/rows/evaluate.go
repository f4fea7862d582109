package rows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/images"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/tabular"
)

type evaluateFlags struct {
	real, synthetic, train, coin, schema string
	models                               []string
	format                               *string
}

func evaluateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "evaluate --real test.csv --synthetic FILE [flags]",
		Short: "compare synthetic rows with real ones",
	}
	var e evaluateFlags
	f := c.Flags()
	f.StringVar(&e.real, "real", "",
		"`file` of real test rows; for images, an idx file with its labels next to it, or IMAGES,LABELS")
	f.StringVar(&e.synthetic, "synthetic", "",
		"`file` of synthetic rows, with or without a weight column; for images, like --real")
	f.StringVar(&e.train, "train-real", "", "`file` of the real rows used in the training: shows what models "+
		"trained on them reach, and whether synthetic rows are too close to them")
	f.StringVar(&e.coin, "coin-flips", "", "`file` of rows of the same run with --votes coin, as a baseline")
	f.StringVar(&e.schema, "schema", "",
		"the schema `file` (default: schema.yaml next to --real, or model/schema.yaml next to --synthetic)")
	f.StringSliceVar(&e.models, "models", nil, "only these classifiers, separated by commas")
	e.format = cli.Choice(c, "format", "table", "how to print the result", "table", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if e.real == "" || e.synthetic == "" {
			return cli.Misuse("--real and --synthetic are required")
		}
		return e.evaluate(c.Context())
	}
	return c
}

func (e *evaluateFlags) evaluate(ctx context.Context) error {
	schema, err := e.loadSchema()
	if err != nil {
		return err
	}
	started := time.Now()
	result, err := e.measure(ctx, schema)
	if ctx.Err() != nil {
		return errors.New("interrupted; an evaluation cannot be resumed, start it again")
	}
	if err != nil {
		return err
	}
	if *e.format == "json" {
		return cli.PrintJSON(result)
	}
	return showEvaluation(result, time.Since(started))
}

func (e *evaluateFlags) loadSchema() (*partition.Schema, error) {
	if e.schema != "" {
		return partition.LoadSchema(e.schema)
	}
	beside := func(files string, names ...string) string {
		first, _, _ := strings.Cut(files, ",")
		folder := filepath.Dir(filepath.Clean(first)) // a folder of parts, with or without a slash
		return filepath.Join(append([]string{folder}, names...)...)
	}
	for _, path := range []string{beside(e.real, "schema.yaml"), beside(e.synthetic, "model", "schema.yaml")} {
		if _, err := os.Stat(path); err == nil {
			return partition.LoadSchema(path)
		}
	}
	return nil, errors.New("no schema.yaml next to --real and no model/schema.yaml next to --synthetic; give one " +
		"with --schema")
}

func (e *evaluateFlags) measure(ctx context.Context, schema *partition.Schema) (*evaluate.Evaluation, error) {
	if schema.Format == "idx" {
		return e.measureImages(ctx, schema)
	}
	in := evaluate.Input{Models: e.models}
	real, synthetic := tabular.Options{Warn: cli.Warn}, tabular.Options{IgnoreUnit: true, Weights: true, Warn: cli.Warn}
	for _, file := range []struct {
		path    string
		into    **partition.Table
		options tabular.Options
	}{
		{e.real, &in.Test, real},
		{e.synthetic, &in.Synthetic, synthetic},
		{e.train, &in.Train, real},
		{e.coin, &in.CoinFlips, synthetic},
	} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.into, err = tabular.Read(schema, file.path, file.options); err != nil {
			return nil, err
		}
	}
	return evaluate.Evaluate(ctx, in)
}

func (e *evaluateFlags) measureImages(ctx context.Context, schema *partition.Schema) (*evaluate.Evaluation, error) {
	if len(e.models) > 0 {
		return nil, errors.New("--models is for tables, and the schema is for images; leave it out")
	}
	in := images.Input{Classes: len(schema.Classes())}
	read := func(path string) (*idx.Images, error) {
		if images, labels, two := strings.Cut(path, ","); two {
			return idx.Read(schema, images, labels)
		}
		if path != e.synthetic {
			return tabular.ReadImages(schema, path, tabular.Options{})
		}
		t, err := tabular.Read(schema, path, tabular.Options{Weights: true}) // which CSV may have
		if err != nil {
			return nil, err
		}
		in.Weight = t.Weights()
		return idx.FromTable(t)
	}
	for _, file := range []struct {
		path string
		into **idx.Images
	}{{e.real, &in.Test}, {e.synthetic, &in.Synthetic}, {e.train, &in.Train}, {e.coin, &in.CoinFlips}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.into, err = read(file.path); err != nil {
			return nil, err
		}
	}
	return images.Evaluate(ctx, in)
}
