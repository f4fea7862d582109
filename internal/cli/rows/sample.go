package rows

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// sampleFlags say what to draw, and the destination.
type sampleFlags struct {
	model, out string
	where      []string
	rows       int
	seed       uint64
	force      bool
	format     *string
}

func sampleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sample --model DIR/model --out FILE [--rows N] [--where label=1] [flags]",
		Short: "draw more rows from a trained model",
	}
	var o sampleFlags
	f := c.Flags()
	f.StringVar(&o.model, "model", "", "model `folder` of a finished run")
	f.IntVar(&o.rows, "rows", 0, "number of rows (default: as many as the run released, from manifest.json next to "+
		"the model)")
	f.StringVar(&o.out, "out", "", "`file` to write: Parquet if its name ends in .parquet, else CSV; - writes to "+
		"standard output; for images also .png, or idx if the name contains images")
	f.StringArrayVar(&o.where, "where", nil, "draw only rows that meet the condition, such as `label=value`; repeat "+
		"for more conditions. Network models support only the label")
	f.Uint64Var(&o.seed, "seed", 0, "seed to repeat a draw; 0: different rows each time")
	f.BoolVar(&o.force, "force", false, "replace --out if it exists")
	o.format = cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if o.model == "" || o.out == "" {
			return cli.Misuse("--model and --out are required")
		}
		if !f.Changed("rows") {
			released, err := proof.ReleasedRows(o.model)
			if err == nil && released == 0 {
				err = cli.Misuse("--rows is required, because there is no manifest.json next to %s with the run's "+
					"number of rows", o.model)
			}
			if err != nil {
				return err
			}
			o.rows = released
		}
		if o.rows < 1 || o.rows > pipeline.MaxRows {
			return cli.Misuse("--rows %d: use 1 to %d; draw several times for more", o.rows, pipeline.MaxRows)
		}
		return sample(o)
	}
	return c
}

func sample(o sampleFlags) error {
	if err := o.free(o.out); err != nil {
		return err
	}
	var where []pipeline.Condition
	for _, text := range o.where {
		condition, err := pipeline.ParseCondition(text)
		if err != nil {
			return cli.Misuse("--where: %v", err)
		}
		where = append(where, condition)
	}
	model, err := pipelines.LoadModel(o.model)
	if err != nil {
		return err
	}
	kind, paths, err := o.files(model)
	if err != nil {
		return err
	}
	if columns := model.Schema().WithoutCodes(); len(columns) > 0 {
		cli.Warn(fmt.Sprintf("The list of codes of %s is not in the model's folder: the rows have prefixes in place "+
			"of codes. Copy the list there to get codes.", strings.Join(columns, ", ")))
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	table, err := model.Sample(o.rows, where, rand.New(rand.NewPCG(o.seed, 0x5a3e)))
	if err != nil {
		return err
	}
	list := o.out + proof.SampleSuffix
	if o.out == "-" {
		return tabular.WriteCSV(os.Stdout, table)
	}
	files, err := encodeSample(table, kind, o.out)
	if err != nil {
		return err
	}
	if err := o.free(list); err != nil {
		return err
	}
	text, err := o.list(paths, files)
	if err != nil {
		return err
	}
	files = append(files, text)
	for i, path := range append(paths, list) {
		if err := os.WriteFile(path, files[i], 0o644); err != nil {
			return fmt.Errorf("write the sample: %w", err)
		}
	}
	if *o.format == "json" {
		answer := map[string]any{"rows": o.rows, "output": o.out, "manifest": list}
		if kind == sampleIDX {
			answer["labels"] = paths[1]
		}
		return cli.PrintJSON(answer)
	}
	fmt.Printf("%d synthetic rows in %s\n", o.rows, strings.Join(paths, " and "))
	return nil
}

// list describes the files of a sample and the model that they come from.
func (o *sampleFlags) list(paths []string, texts [][]byte) ([]byte, error) {
	var files []proof.File
	for i, path := range paths {
		files = append(files, proof.FileOf(filepath.Base(path), texts[i]))
	}
	s, err := proof.MakeSample(o.rows, files, o.model, pipeline.ModelFiles(o.model))
	if err != nil {
		return nil, err
	}
	return s.Canonical()
}

// free refuses a file of the model, and one that exists.
func (o *sampleFlags) free(path string) error {
	if err := outsideModel(path, o.model); err != nil {
		return err
	}
	if _, err := os.Lstat(path); path != "-" && err == nil && !o.force {
		return fmt.Errorf("%s already exists; give another file, or add --force to replace it", path)
	}
	return nil
}

// files are the format and the paths of a sample.
func (o *sampleFlags) files(model pipeline.Model) (kind sampleKind, paths []string, err error) {
	paths = []string{o.out}
	if model.Schema().Image == nil {
		switch strings.ToLower(filepath.Ext(o.out)) {
		case ".png":
			return 0, nil, fmt.Errorf("%s: the model makes rows of a table, which cannot be written as images; give "+
				"a CSV or Parquet file", o.out)
		case ".parquet":
			return sampleParquet, paths, nil
		}
		return sampleCSV, paths, nil
	}
	if kind, err = kindOfSample(o.out); err != nil || kind != sampleIDX {
		return kind, paths, err
	}
	labels, err := idx.LabelsPath(o.out)
	if err != nil {
		return 0, nil, err
	}
	return kind, append(paths, labels), o.free(labels)
}

// outsideModel refuses an output that is one of the model's own files, by any path, because it would destroy the
// model.
func outsideModel(out, dir string) error {
	target, err := os.Stat(out)
	if err != nil {
		return nil // a new file, or an error later when it is written
	}
	for _, path := range pipeline.ModelFiles(dir) {
		if own, err := os.Stat(path); err == nil && os.SameFile(own, target) {
			return fmt.Errorf("--out %s is a file of the model; give another file", out)
		}
	}
	return nil
}
