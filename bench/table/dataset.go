package table

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
)

// Table is one of rows or images.
type Table = partition.Table

// yardsticks are the classifiers whose mean AUROC is the figure of a table.
var yardsticks = []string{"logistic regression", "random forest", "gaussian naive bayes", "gradient boosting"}

// example is the data set that is part of the project.
const example = "flchain"

// dataset is where a data set lies, with its real rows.
type dataset struct {
	schemaPath, trainPath string
	train, test           *Table
	images                bool
}

func (p *Program) open(l Line, dir string) (*dataset, error) {
	folder := filepath.Join(dir, example)
	if l.Data == example {
		if err := os.CopyFS(folder, flchain.Files); err != nil {
			return nil, err
		}
	} else {
		var err error
		if folder, err = filepath.Abs(filepath.Join(p.data, l.Data)); err != nil {
			return nil, err
		}
	}
	d := &dataset{schemaPath: filepath.Join(folder, "schema.yaml"), images: l.Images}
	schema, err := partition.LoadSchema(d.schemaPath)
	if err != nil {
		return nil, err
	}
	read := func(split string) (string, *Table, error) {
		file := schema.Files[split].Path
		if l.Images {
			file = schema.Files[split].Images
		}
		if file == "" {
			file = split + ".csv.gz"
		}
		path := filepath.Join(folder, file)
		table, err := partition.Read(schema, path, partition.ReadOptions{})
		return path, table, err
	}
	if d.trainPath, d.train, err = read("train"); err != nil {
		return nil, err
	}
	_, d.test, err = read("test")
	return d, err
}

// unlabelled is whether there are no classes to tell apart.
func (d *dataset) unlabelled() bool { return len(d.train.Schema().Classes()) == 0 }

// worth is the figure of rows or images as training data, of unlabelled rows how alike their
// pairs of columns are: of a table the mean AUROC of
// the yardsticks on real test rows, of images the accuracy of a small convolutional
// network on real test images.
func (d *dataset) worth(ctx context.Context, train *Table) (float64, error) {
	if d.images {
		return d.accuracy(ctx, train)
	}
	if d.unlabelled() {
		l, err := d.alike(train)
		return l.trends(), err
	}
	models, err := classify.Named(yardsticks...)
	if err != nil {
		return 0, err
	}
	all, err := evaluate.TrainTest(ctx, train, d.test, models...)
	if errors.Is(err, evaluate.ErrOneClass) {
		return 0.5, nil // all guess alike
	}
	if err != nil {
		return 0, err
	}
	var mean float64
	for _, u := range all {
		mean += u.AUROC / float64(len(all))
	}
	return mean, nil
}

func (d *dataset) accuracy(ctx context.Context, train *Table) (float64, error) {
	synthetic, err := train.Images()
	if err != nil {
		return 0, err
	}
	test, err := d.test.Images()
	if err != nil {
		return 0, err
	}
	return evaluate.ImageAccuracy(ctx, synthetic, test, len(d.train.Schema().Classes()))
}
