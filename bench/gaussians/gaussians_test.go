package main

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Of the mixture Q is 0.99, of one mode 1/25, of even points what the ellipses cover.
func TestQualityOfKnownPoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := points(100_000, rng)
	if q := quality(x, nil); math.Abs(q-0.99) > 0.01 {
		t.Errorf("the mixture has Q %v, want 0.99", q)
	}
	even := make([]float32, 200_000)
	for i := range even {
		even[i] = rng.Float32()
	}
	// 25 circles of radius 0.05 x 3.035 in a square of side 10.
	if q, want := quality(even, nil), 25*math.Pi*0.0025*9.21/100; math.Abs(q-want) > 0.002 {
		t.Errorf("even points have Q %v, want %v", q, want)
	}
	one := make([]float32, 2000)
	for i := range one {
		one[i] = 0.5 // the middle of the middle mode
	}
	if q := quality(one, nil); q != 1./25 {
		t.Errorf("one mode has Q %v", q)
	}
	weights := make([]float64, 100_000)
	for i := range weights {
		if x[2*i] < 0.6 {
			weights[i] = 1 // three of five columns
		}
	}
	if q := quality(x, weights); math.Abs(q-0.6) > 0.01 {
		t.Errorf("three columns of modes have Q %v, want 0.6", q)
	}
}

var long = flag.Bool("long", false, "boost at epsilon 1 as well, and five seeds of each kind")

// PGB is better than the last generator in the mean of two seeds without privacy; with -long,
// of five, and at epsilon 1 as well. PLOT names a file for the picture of both.
//
// Runs are random, by exact noise and samples. In 20 of each kind the gain was 0.043 +- 0.025
// and 0.219 +- 0.080, and the last generator's Q 0.143 +- 0.020 and 0.152 +- 0.025. As many more
// runs count before the test fails. At epsilon 1 the mean gain over ten is 5.4 standard deviations
// above 0, and the mean Q 16 above its limit; without privacy they are 5.5 and 9.0 over four. By
// chance the test fails less than once in 1,000,000 times.
func TestBoostingIsBetterThanTheLastGenerator(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two GANs: 8 seconds of one core")
	}
	settings, seeds := []setting{standard(0, authors)}, 2
	if *long {
		settings, seeds = []setting{standard(1, authors), standard(0, authors)}, 5
	} else {
		t.Log("the long variant: go test ./bench/gaussians -run TestBoosting -long")
	}
	var first []*result
	for _, s := range settings {
		var results []*result
		var gain, last float64
		for batch := range 2 {
			var table bytes.Buffer
			more, err := s.runs(context.Background(), &table, 1+seeds*batch, seeds)
			testkit.Must(t, err)
			t.Log("\n" + table.String())
			results = append(results, more...)
			gain, _ = moments(results, func(r *result) float64 { return r.gain(methodPGB) })
			last, _ = moments(results, func(r *result) float64 { return r.quality[0] })
			if gain > 0 && last >= 0.04 {
				break
			}
		}
		if !(gain > 0) || last < 0.04 {
			t.Errorf("epsilon %v: the last generator has Q %.3f in the mean, PGB %+.3f", s.epsilon, last, gain)
		}
		first = append(first, results[0])
	}
	if path := os.Getenv("PLOT"); path != "" && *long {
		testkit.Must(t, savePicture(path, first))
	}
}

// The private runs stay within the budget: the GAN's part and the selections'.
func TestTheBudgetCoversBoth(t *testing.T) {
	s := standard(1, authors)
	noise, err := s.noise()
	testkit.Must(t, err)
	costs, err := s.costs(noise)
	testkit.Must(t, err)
	if costs[2] > 1 || costs[2] < 0.99 || costs[0] >= costs[2] || costs[1] >= costs[2] {
		t.Errorf("GAN %v, selections %v, together %v", costs[0], costs[1], costs[2])
	}
}

// An opposite scores what its discriminator does not, of candidates and of real records.
func TestOpposites(t *testing.T) {
	scores, sums := [][]float64{{0, 0.25, 1}, {0.5, 0.5, 0.75}}, []int64{3 * bound, 0}
	both, all := opposites(scores, sums, 10)
	if len(both) != 4 || len(all) != 4 || len(scores) != 2 || len(sums) != 2 {
		t.Fatalf("%d discriminators and %d sums of 2, which are %d and %d now", len(both), len(all), len(scores),
			len(sums))
	}
	for j, row := range scores {
		for b, v := range row {
			if both[j][b] != v || both[2+j][b] != 1-v {
				t.Errorf("candidate %d scores %v by discriminator %d, %v by its opposite", b, both[j][b], j,
					both[2+j][b])
			}
		}
		if all[j] != sums[j] || all[j]+all[2+j] != 10*bound {
			t.Errorf("discriminator %d has the sum %d, its opposite %d", j, all[j], all[2+j])
		}
	}
}

func TestPictureHasAPlaceForEachMethod(t *testing.T) {
	x := points(1000, rand.New(rand.NewPCG(2, 2)))
	path := filepath.Join(t.TempDir(), "points.png")
	testkit.Must(t, savePicture(path, []*result{{points: [][]float32{x, x}}, {points: [][]float32{x, x}}}))
	f, err := os.Open(path)
	testkit.Must(t, err)
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil || m.Bounds().Dx() != 624 || m.Bounds().Dy() != 624 {
		t.Errorf("a picture of %v, %v", m.Bounds(), err)
	}
}
