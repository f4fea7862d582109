package main

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/images"
	"github.com/conclave-dp/conclave/partition/idx"
)

// yardsticks are the classifiers whose mean AUROC is the figure of a table.
var yardsticks = []string{"logistic regression", "random forest", "gaussian naive bayes", "gradient boosting"}

// The names of figures.
const (
	auroc    = "AUROC"
	accuracy = "accuracy"
	frechet  = "Fréchet distance"
	byClass  = "Fréchet distance, mean of classes"
	resNet   = "accuracy, ResNet"
	shapes   = "column shapes"
	trends   = "pair trends"
)

// rowsWorth is the mean AUROC of the yardsticks, trained on rows, on real test rows.
var rowsWorth = &measure{names: []string{auroc}, of: yardsticksOf}

// imagesWorth is the accuracy of a small convolutional network, trained on images, on real test images. It is also how
// far images are from these, by the features of such a network that was trained on real images: the Fréchet distance
//
//	|mean(a) - mean(b)|^2 + tr(A + B - 2 (A B)^(1/2))
//
// of features a of real and b of synthetic images with the covariances A and B. It is that of all images, and the mean
// of that of each class. 0 is the best.
var imagesWorth = &measure{names: []string{accuracy, frechet, byClass}, of: imagesOf}

// imagesByResNet is in addition the accuracy of a residual network that was trained on the images.
var imagesByResNet = &measure{names: []string{accuracy, frechet, byClass, resNet}, of: func(
	ctx context.Context, d *dataset, rows *table) ([]float64, error) {
	worth, err := imagesOf(ctx, d, rows)
	if err != nil {
		return nil, err
	}
	in, err := imagesIn(d, rows)
	if err != nil {
		return nil, err
	}
	share, err := images.ResNetAccuracy(ctx, in.Synthetic, in.Test, in.Classes)
	return append(worth, share), err
}}

// rowsAlike is in addition how alike columns and pairs of columns are to those of real test
// rows, 1 is the most.
var rowsAlike = &measure{names: []string{auroc, shapes, trends}, of: func(
	ctx context.Context, d *dataset, rows *table) ([]float64, error) {
	worth, err := yardsticksOf(ctx, d, rows)
	if err != nil {
		return nil, err
	}
	byColumn, byPair, err := alikeOf(d, rows)
	return append(worth, byColumn, byPair), err
}}

// unlabelledAlike is for rows without classes, where there is nothing to classify.
var unlabelledAlike = &measure{names: []string{trends, shapes}, of: func(
	_ context.Context, d *dataset, rows *table) ([]float64, error) {
	byColumn, byPair, err := alikeOf(d, rows)
	return []float64{byPair, byColumn}, err
}}

func yardsticksOf(ctx context.Context, d *dataset, rows *table) ([]float64, error) {
	models, err := classify.Named(yardsticks...)
	if err != nil {
		return nil, err
	}
	area, err := meanAUROC(ctx, d, rows, models...)
	return []float64{area}, err
}

// meanAUROC is that of models that were trained on rows, on real test rows.
func meanAUROC(ctx context.Context, d *dataset, rows *table, models ...*classify.Classifier) (float64, error) {
	all, err := trained(ctx, d, rows, models...)
	return meanArea(all), err
}

// meanArea is the mean AUROC of models; of none it is that of a guess.
func meanArea(all []evaluate.Utility) float64 {
	if len(all) == 0 {
		return 0.5
	}
	area := 0.0
	for _, u := range all {
		area += u.AUROC / float64(len(all))
	}
	return area
}

// trained says what models are worth; nil where they have seen one class only.
func trained(ctx context.Context, d *dataset, rows *table, models ...*classify.Classifier) ([]evaluate.Utility, error) {
	all, err := evaluate.TrainTest(ctx, rows, d.test, models...)
	if errors.Is(err, evaluate.ErrOneClass) {
		return nil, nil
	}
	return all, err
}

func imagesOf(ctx context.Context, d *dataset, rows *table) ([]float64, error) {
	in, err := imagesIn(d, rows)
	if err != nil {
		return nil, err
	}
	e, err := images.Evaluate(ctx, in)
	if err != nil {
		return nil, err
	}
	figures := []float64{e.Images.AccuracySynthetic, e.Images.FrechetDistance, math.NaN()}
	if e.Images.FrechetByClass != nil {
		figures[2] = *e.Images.FrechetByClass
	}
	return figures, nil
}

// imagesIn are the images of rows, and the real ones that they are compared with.
func imagesIn(d *dataset, rows *table) (in images.Input, err error) {
	in.Classes = len(d.train.Schema().Classes())
	if in.Synthetic, err = idx.FromTable(rows); err != nil {
		return in, err
	}
	if in.Test, err = idx.FromTable(d.test); err != nil {
		return in, err
	}
	in.Train, err = idx.FromTable(d.train)
	return in, err
}

// alikeSeed chooses the compared pairs of tables that have many.
const alikeSeed = 1

// alikeOf is how alike columns are, and how pairs of columns go together, in the mean.
func alikeOf(d *dataset, rows *table) (byColumn, byPair float64, err error) {
	columns, _, err := evaluate.CompareColumns(d.test, rows, nil)
	if err != nil {
		return 0, 0, err
	}
	pairs, _, err := evaluate.ComparePairs(d.test, rows, nil, alikeSeed)
	if err != nil {
		return 0, 0, err
	}
	var ofColumns, ofPairs []float64
	for _, c := range columns {
		if c.Score != nil { // of columns that hold something
			ofColumns = append(ofColumns, *c.Score)
		}
	}
	for _, p := range pairs {
		if p.Score != nil {
			ofPairs = append(ofPairs, *p.Score)
		}
	}
	return mean(ofColumns), mean(ofPairs), nil
}

// mean of no numbers is 0.
func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return stat.Mean(x, nil)
}
