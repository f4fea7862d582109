package images

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// strokes are images of 8 x 8 pixels with a bright row (class 0) or column (class
// 1), with noise; unlabelled ones have random classes.
func strokes(seed uint64, n int, noise float64, unlabelled bool) *idx.Images {
	rng := rand.New(rand.NewPCG(seed, 3))
	x := &idx.Images{Shape: partition.Image{Height: 8, Width: 8, Channels: 1}}
	for i := range n {
		class, at := i%2, rng.IntN(8)
		for r := range 8 {
			for c := range 8 {
				v := 60 + noise*rng.NormFloat64()
				if class == 0 && r == at || class == 1 && c == at {
					v += 120
				}
				x.Pixels = append(x.Pixels, byte(max(0, min(255, v))))
			}
		}
		if unlabelled {
			class = rng.IntN(2)
		}
		x.Classes = append(x.Classes, class)
	}
	return x
}

// quality is Evaluate for the figures alone. train may be nil.
func quality(ctx context.Context, synthetic, test, train *idx.Images, classes int) (
	*evaluate.ImageQuality, error) {
	e, err := Evaluate(ctx, Input{Synthetic: synthetic, Test: test, Train: train, Classes: classes})
	if err != nil {
		return nil, err
	}
	return e.Images, nil
}

func TestImagesTellGoodFromBad(t *testing.T) {
	ctx := context.Background()
	train, test := strokes(1, 1500, 20, false), strokes(2, 300, 20, false)
	good, err := quality(ctx, strokes(3, 1500, 20, false), test, train, 2)
	testkit.Must(t, err)
	bad, err := quality(ctx, strokes(4, 1500, 90, true), test, train, 2)
	testkit.Must(t, err)
	t.Logf("good %+v", *good)
	t.Logf("bad  %+v", *bad)
	if good.AccuracyReal < 0.95 || good.AccuracySynthetic < 0.95 || bad.AccuracySynthetic > 0.7 {
		t.Errorf("accuracies: real %v, good %v, bad %v", good.AccuracyReal, good.AccuracySynthetic,
			bad.AccuracySynthetic)
	}
	if good.ScoreSynthetic < 1.8 || good.ScoreSynthetic > 2 || bad.ScoreSynthetic > good.ScoreSynthetic {
		t.Errorf("scores: good %v, bad %v", good.ScoreSynthetic, bad.ScoreSynthetic)
	}
	if !(good.FrechetDistance*5 < bad.FrechetDistance) {
		t.Errorf("distances: good %v, bad %v", good.FrechetDistance, bad.FrechetDistance)
	}
	// Wrong labels do not change the images, only which images each class has.
	swapped := strokes(3, 1500, 20, false)
	for i := range swapped.Classes {
		swapped.Classes[i] = 1 - swapped.Classes[i]
	}
	wrong, err := quality(ctx, swapped, test, train, 2)
	testkit.Must(t, err)
	if wrong.FrechetDistance != good.FrechetDistance || !(*good.FrechetByClass*5 < *wrong.FrechetByClass) {
		t.Errorf("distances by class: good %v, swapped %v", *good.FrechetByClass, *wrong.FrechetByClass)
	}
	one := strokes(3, 20, 20, false)
	for i := range one.Classes {
		one.Classes[i] = 0
	}
	if q, err := quality(ctx, one, test, train, 2); err != nil || q.FrechetByClass != nil {
		t.Errorf("images of one class: %+v, %v", q, err)
	}
}

func TestImagesWithoutTrainingImages(t *testing.T) {
	q, err := quality(context.Background(), strokes(3, 600, 20, false), strokes(2, 800, 20, false), nil, 2)
	testkit.Must(t, err)
	if q.AccuracyReal < 0.9 || q.AccuracySynthetic < 0.95 {
		t.Errorf("%+v", q)
	}
}

func TestImagesRefuse(t *testing.T) {
	some := strokes(1, 20, 20, false)
	small := &idx.Images{Shape: partition.Image{Height: 1, Width: 1, Channels: 1}, Pixels: []byte{1, 2},
		Classes: []int{0, 1}}
	for _, c := range []struct {
		name, says             string
		synthetic, test, train *idx.Images
	}{
		{"no synthetic", "two synthetic images", nil, some, nil},
		{"no test", "two test images", some, nil, nil},
		{"empty", "two synthetic images", some.Subset(nil), some, nil},
		{"another shape", "another shape", small, some, nil},
		{"few", "four test images", some, some.Subset([]int{0, 1}), nil},
	} {
		if _, err := quality(context.Background(), c.synthetic, c.test, c.train, 2); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.says)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := quality(ctx, some, some, some, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if q, err := quality(context.Background(), small, small, small, 2); err != nil || q == nil {
		t.Errorf("images of one pixel: %v", err)
	}
}
