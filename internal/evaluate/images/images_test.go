package images

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestEvaluate(t *testing.T) {
	ctx := context.Background()
	in := Input{Synthetic: strokes(3, 1500, 20, false), Test: strokes(2, 300, 20, false),
		CoinFlips: strokes(4, 1000, 90, true), Classes: 2}
	e, err := Evaluate(ctx, in)
	testkit.Must(t, err)
	q := e.Images
	if e.Privacy != evaluate.NotPrivate || e.Rows != (evaluate.Rows{Synthetic: 1500, Test: 300}) || len(e.Notes) != 1 {
		t.Errorf("%+v", e)
	}
	if q.AccuracyCoinFlips == nil || *q.AccuracyCoinFlips > q.AccuracySynthetic-0.2 ||
		*q.ScoreCoinFlips > q.ScoreSynthetic || *q.FrechetCoinFlips < 2*q.FrechetDistance ||
		*q.ByClassCoinFlips < 2**q.FrechetByClass {
		t.Errorf("coin flips are no worse: %+v", *q)
	}
	in.Train, in.CoinFlips = strokes(1, 1500, 20, false), nil
	if e, err = Evaluate(ctx, in); err != nil || e.Rows.Train != 1500 || len(e.Notes) != 0 ||
		e.Images.AccuracyCoinFlips != nil {
		t.Errorf("with training images: %+v, %v", e, err)
	}
	in.CoinFlips = strokes(4, 1, 0, true)
	if _, err := Evaluate(ctx, in); err == nil || !strings.Contains(err.Error(), "two coin-flip images") {
		t.Errorf("one image of coin flips: %v", err)
	}
}

// A residual network learns classes, in the same way each time.
func TestResNetAccuracy(t *testing.T) {
	ctx := context.Background()
	train, test := strokes(3, 1500, 20, false), strokes(2, 300, 20, false)
	first, err := ResNetAccuracy(ctx, train, test, 2)
	if err != nil || first < 0.95 {
		t.Errorf("accuracy %v, %v", first, err)
	}
	if again, err := ResNetAccuracy(ctx, train, test, 2); err != nil || again != first {
		t.Errorf("accuracy %v, then %v, %v", first, again, err)
	}
	if _, err := ResNetAccuracy(ctx, strokes(3, 1, 20, false), test, 2); err == nil {
		t.Error("one image is enough to learn from")
	}
}

// Images of a whole weight are drawn exactly that number of times; weights of 2 and 0 give the first half
// twice.
func TestImagesAreDrawnByWeight(t *testing.T) {
	ctx := context.Background()
	synthetic, test, train := strokes(3, 200, 20, false), strokes(2, 100, 20, false), strokes(1, 200, 20, false)
	weight := make([]float64, 200)
	var drawn []int
	for i := range 100 {
		weight[i] = 2
		drawn = append(drawn, i, i)
	}
	e, err := Evaluate(ctx, Input{Synthetic: synthetic, Weight: weight, Test: test, Train: train, Classes: 2})
	testkit.Must(t, err)
	want, err := quality(ctx, synthetic.Subset(drawn), test, train, 2)
	if err != nil || !reflect.DeepEqual(e.Images, want) {
		t.Errorf("%+v with weights, %+v drawn, %v", e.Images, want, err)
	}
	if e.Weights == nil || e.Weights.EffectiveSampleSize != 100 ||
		!strings.Contains(strings.Join(e.Notes, " "), "in proportion to their weights") {
		t.Errorf("weights %+v, notes %q", e.Weights, e.Notes)
	}
	if _, err := Evaluate(ctx, Input{Synthetic: synthetic, Weight: weight[1:], Test: test, Train: train,
		Classes: 2}); !errors.Is(err, evaluate.ErrWeights) {
		t.Errorf("one weight too few: %v", err)
	}
}
