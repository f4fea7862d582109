package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Utility measures how well one classifier, trained on one table, ranks the rows of another.
type Utility struct {
	Classifier string `json:"classifier"`
	Ranking
}

// ErrOneClass means that rows have only one class, so that there is nothing to tell apart.
var ErrOneClass = measure.ErrOneClass

// ErrNoClasses means that the schema has no label with a positive class, so that rows cannot be ranked.
var ErrNoClasses = errors.New("the schema has no label with a positive class")

// TrainTest trains each model on train and tests it on test, and returns one Utility per model, in order;
// without models, classify.Models() are used. Rows of the schema's positive class are positive, all others
// negative.
//
// With synthetic training rows and real test rows this is setting B of the PATE-GAN paper (Jordon, Yoon, van
// der Schaar 2019). With real rows for both it is the ceiling, setting A.
//
// Of a column with more than 500 categories, models see those that are most frequent in train, and all others as one.
//
// It fails with ErrNoClasses if the label is missing, is a number, or has many classes and the schema marks
// none as positive; with ErrOneClass if a table has only one class (the message says which); if the tables'
// schemas have different columns; and if ctx has ended before a model.
func TrainTest(ctx context.Context, train, test *partition.Table, models ...*classify.Classifier) ([]Utility, error) {
	if len(models) == 0 {
		models = classify.Models()
	}
	schema := train.Schema()
	if len(schema.Classes()) < 2 || schema.Positive() < 0 {
		return nil, fmt.Errorf("train and test: %w", ErrNoClasses)
	}
	if err := sameColumns(schema, test.Schema()); err != nil {
		return nil, fmt.Errorf("train and test: %w", err)
	}
	encoder := encode.New(schema)
	kept := newCoarse(train)
	learn, exam := kept.label(encoder, train), kept.label(encoder, test)
	// The error is made here, since a model or a measure does not know which table it has.
	for _, side := range []struct {
		name string
		rows classify.Rows
	}{{"training", learn}, {"test", exam}} {
		if err := measure.CheckClasses(side.rows.Positive); err != nil {
			return nil, fmt.Errorf("%s rows: %w", side.name, err)
		}
	}
	results := make([]Utility, 0, len(models))
	for _, model := range models {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := trainTest(model, learn, exam)
		if err != nil {
			return nil, err
		}
		results = append(results, Utility{model.Name(), r})
	}
	return results, nil
}

func trainTest(model *classify.Classifier, learn, exam classify.Rows) (Ranking, error) {
	var r Ranking
	if err := model.Fit(learn); err != nil {
		return r, fmt.Errorf("train %s: %w", model.Name(), err)
	}
	scores, err := model.Score(exam.X)
	if err != nil {
		return r, fmt.Errorf("test %s: %w", model.Name(), err)
	}
	for _, m := range []struct {
		into *float64
		of   func(positive []bool, scores, weight []float64) (float64, error)
	}{
		{&r.AUROC, measure.AUROC}, {&r.AveragePrecision, measure.AveragePrecision},
		{&r.InterpolatedPrecision, measure.InterpolatedPrecision},
		{&r.Accuracy, func(positive []bool, scores, weight []float64) (float64, error) {
			return measure.Accuracy(positive, scores, model.Threshold(), weight)
		}},
	} {
		if *m.into, err = m.of(exam.Positive, scores, exam.Weight); err != nil {
			return r, fmt.Errorf("test %s: %w", model.Name(), err)
		}
	}
	return r, nil
}

// leastWeight is the least weight that classifiers accept; smaller weights count as 0.
const leastWeight = 1e-100

// counted is a weight in the form that classifiers accept.
func counted(w float64) float64 {
	if w < leastWeight {
		return 0
	}
	return w
}

// label converts a table into rows for classifiers, with its weights if it has any.
func (c *coarse) label(encoder *encode.Encoder, t *partition.Table) classify.Rows {
	x, classes := c.matrix(encoder, t)
	r := classify.Rows{X: x, Positive: make([]bool, x.Rows), Weight: slices.Clone(t.Weights())}
	for i, w := range r.Weight {
		r.Weight[i] = counted(w)
	}
	for i, class := range classes {
		r.Positive[i] = class == t.Schema().Positive()
	}
	return r
}

// sameColumns refuses two schemas whose columns differ in meaning.
func sameColumns(a, b *partition.Schema) error {
	if a == b {
		return nil
	}
	if len(a.Columns) != len(b.Columns) {
		return fmt.Errorf("the tables have %d and %d columns: read both with the same schema", len(a.Columns),
			len(b.Columns))
	}
	for i, c := range a.Columns {
		d := b.Columns[i]
		if c.Name != d.Name || c.Kind != d.Kind || !slices.Equal(c.Categories, d.Categories) ||
			c.Declared() != c.Kind && c.Describe() != d.Describe() { // dates count from their lower bound
			return fmt.Errorf("column %d (%s, %s) differs between the tables: read both with the same schema", i+1,
				c.Name, d.Name)
		}
	}
	return nil
}
