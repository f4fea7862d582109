package images

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/partition/idx"
)

// Input is what an evaluation of images compares.
type Input struct {
	// Synthetic are the images to evaluate. Test are real images that they were not made from.
	Synthetic, Test *idx.Images
	// Train are the real images they were made from. CoinFlips are images of the same run with its votes
	// replaced by chance. Both may be nil.
	Train, CoinFlips *idx.Images
	// Weight are the weights of the synthetic images, nil for 1 each. The classifiers use no weights: the same
	// number of images is drawn in proportion to them, always the same ones.
	Weight []float64
	// Classes is the schema's number of classes.
	Classes int
}

// Evaluate is [evaluate.Evaluate] for images. It measures how well a classifier trained on synthetic images
// recognizes real test images, and how a classifier trained on real images sees the synthetic ones. That
// classifier is trained on Train or, if that is nil, on half of Test, which no figure then uses.
//
// The same images give the same figures. It fails for fewer than two images (four of Test without Train), for
// images of different shapes, and when ctx ends. NOT PRIVATE.
func Evaluate(ctx context.Context, in Input) (*evaluate.Evaluation, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	e := &evaluate.Evaluation{Privacy: evaluate.NotPrivate,
		Rows: evaluate.Rows{Synthetic: in.Synthetic.Len(), Test: in.Test.Len()}}
	if in.Train != nil {
		e.Rows.Train = in.Train.Len()
	} else {
		note(e,
			"No real training images were given: the reference classifier is trained on half of the test images, and "+
				"all figures use the other half.")
	}
	var err error
	if in.Weight != nil {
		if err := measure.CheckWeights(in.Synthetic.Len(), in.Weight); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
		drawn, err := ratio.Resample(in.Weight, in.Synthetic.Len(), seed)
		if err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
		in.Synthetic, e.Weights = in.Synthetic.Subset(drawn), evaluate.SummarizeWeights(in.Weight)
		note(e,
			"Classifiers of images ignore weights: the figures use the same number of synthetic images, drawn in "+
				"proportion to their weights.")
	}
	if e.Images, err = in.compare(ctx); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	return e, nil
}

// accuracyOf is the share of test images that a classifier trained on other images recognizes.
func (y yardstick) accuracyOf(ctx context.Context, train, test *idx.Images, classes int) (float64, error) {
	student, err := y.fit(ctx, train, classes)
	if err != nil {
		return 0, err
	}
	_, guessed, err := student.look(ctx, test)
	if err != nil {
		return 0, err
	}
	return accuracy(guessed, test.Classes), nil
}

func (in Input) check() error {
	for _, side := range []struct {
		name   string
		x      *idx.Images
		needed bool
	}{{"test", in.Test, true}, {"synthetic", in.Synthetic, true}, {"training", in.Train, false},
		{"coin-flip", in.CoinFlips, false}} {
		if side.x == nil && !side.needed {
			continue
		}
		if side.x == nil || side.x.Len() < 2 {
			return fmt.Errorf("at least two %s images are needed", side.name)
		}
		if side.x.Shape != in.Test.Shape {
			return fmt.Errorf("the %s images have another shape than the test images; use images of one schema",
				side.name)
		}
	}
	if in.Train == nil && in.Test.Len() < 4 {
		return fmt.Errorf("without training images, at least four test images are needed")
	}
	return nil
}

func (in Input) compare(ctx context.Context) (*evaluate.ImageQuality, error) {
	test, judgeOn := in.Test, in.Train
	if judgeOn == nil {
		judgeOn, test = halves(test)
	}
	judge, err := small.fit(ctx, judgeOn, in.Classes)
	if err != nil {
		return nil, err
	}
	features, probabilities, err := judge.look(ctx, test)
	if err != nil {
		return nil, err
	}
	q := &evaluate.ImageQuality{AccuracyReal: accuracy(probabilities, test.Classes)}
	if q.ScoreReal, err = measure.ClassifierScore(probabilities); err != nil {
		return nil, err
	}
	real := against{test: test, features: features, judge: judge}
	of, err := real.of(ctx, in.Synthetic)
	if err != nil {
		return nil, err
	}
	q.AccuracySynthetic, q.ScoreSynthetic, q.FrechetDistance, q.FrechetByClass = of.accuracy, of.score, of.distance,
		of.byClass
	if in.CoinFlips == nil {
		return q, nil
	}
	if of, err = real.of(ctx, in.CoinFlips); err != nil {
		return nil, fmt.Errorf("coin flips: %w", err)
	}
	q.AccuracyCoinFlips, q.ScoreCoinFlips, q.FrechetCoinFlips, q.ByClassCoinFlips = &of.accuracy, &of.score,
		&of.distance, of.byClass
	return q, nil
}

// against are the real test images with which others are compared, as a classifier trained on real images sees
// them.
type against struct {
	test     *idx.Images
	features *mat.Dense
	judge    *classifier
}

// figures are those of one set of images; byClass may be nil.
type figures struct {
	accuracy, score, distance float64
	byClass                   *float64
}

// of trains a classifier on images to measure its accuracy on the real ones, and lets the judge look at them.
func (a against) of(ctx context.Context, x *idx.Images) (f figures, err error) {
	if f.accuracy, err = small.accuracyOf(ctx, x, a.test, a.judge.classes); err != nil {
		return f, err
	}
	features, probabilities, err := a.judge.look(ctx, x)
	if err != nil {
		return f, err
	}
	if f.score, err = measure.ClassifierScore(probabilities); err != nil {
		return f, err
	}
	if f.distance, err = measure.Frechet(a.features, features); err != nil {
		return f, err
	}
	f.byClass, err = a.byClass(features, x.Classes)
	return f, err
}

// byClass is the mean over the classes of the Fréchet distance between their images:
//
//	(1/C) sum_c |mean(a_c) - mean(b_c)|^2 + tr(A_c + B_c - 2 (A_c B_c)^(1/2))
//
// with a_c and b_c the features of real and of other images of class c, and A_c and B_c their covariances. It is nil
// where a class has less than two images.
func (a against) byClass(features *mat.Dense, classes []int) (*float64, error) {
	mean := 0.0
	for c := range a.judge.classes {
		real, other := ofClass(a.features, a.test.Classes, c), ofClass(features, classes, c)
		if real == nil || other == nil {
			return nil, nil
		}
		distance, err := measure.Frechet(real, other)
		if err != nil {
			return nil, err
		}
		mean += distance / float64(a.judge.classes)
	}
	return &mean, nil
}

// ofClass are the features of the images of one class; nil for less than two.
func ofClass(features *mat.Dense, classes []int, class int) *mat.Dense {
	var all []float64
	n, width := 0, features.RawMatrix().Cols
	for i, c := range classes {
		if c == class {
			all, n = append(all, features.RawRowView(i)...), n+1
		}
	}
	if n < 2 {
		return nil
	}
	return mat.NewDense(n, width, all)
}

// halves splits images at random, in the same way each time.
func halves(x *idx.Images) (a, b *idx.Images) {
	order := rand.New(rand.NewPCG(seed, 0x4a1f)).Perm(x.Len())
	return x.Subset(order[:len(order)/2]), x.Subset(order[len(order)/2:])
}

func note(e *evaluate.Evaluation, text string) { e.Notes = append(e.Notes, text) }
