package gnmax

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Every unit is in a sample with the probability of the rate, independent of neighbours and of earlier samples, so the
// size has the variance of a binomial variable. Each of 20 checks fails with a probability of about perCheck although
// the samples are right (sums of thousands of draws are taken as normal): all together below 1e-9.
func TestPoissonSample(t *testing.T) {
	src := NewSource()
	const n = 50
	samples := sampleSize / n
	for _, p := range []float64{0.03, 0.25, 0.5, 0.9} {
		rate := testkit.Value(NewRate(p))
		var of [n]float64
		var size, square, pairs, again float64
		before := make([]bool, n)
		for range samples {
			sample, err := src.PoissonSample(nil, n, rate)
			testkit.Must(t, err)
			if !slices.IsSorted(sample) || len(slices.Compact(slices.Clone(sample))) != len(sample) {
				t.Fatalf("sample %v is not a set in order", sample)
			}
			in := make([]bool, n)
			for _, i := range sample {
				in[i] = true
				of[i]++
			}
			for i := range n {
				if in[i] && in[(i+1)%n] {
					pairs++
				}
				if in[i] && before[i] {
					again++
				}
			}
			d := float64(len(sample)) - n*p
			size, square, before = size+float64(len(sample)), square+d*d, in
		}
		m, v := float64(samples), p*(1-p)
		units := 0.0
		for _, hits := range of {
			units += (hits - m*p) * (hits - m*p) / (m * v)
		}
		if most := (distuv.ChiSquared{K: n}).Quantile(1 - perCheck); !(units <= most) {
			t.Errorf("rate %v: units were in %v of %d samples: chi-square %v, at most %v", p, of, samples, units, most)
		}
		checkMean(t, fmt.Sprintf("rate %v: all", p), size/(m*n), p, v, samples*n)
		// The square of a binomial variable's deviation has mean n v and variance
		// n v (1 + 2 (n-3) v) + n² v² - n² v² (its fourth central moment is
		// n v (1 + (3n-6) v)).
		fourth := n * v * (1 + (3*n-6)*v)
		checkMean(t, fmt.Sprintf("rate %v: variance of the size", p), square/m, n*v, fourth-n*v*n*v, samples)
		// Pairs of neighbours have p² each. Two that share a unit have covariance p³ - p⁴.
		q := p * p
		perPair := q*(1-q) + 2*(p*q-q*q)
		checkMean(t, fmt.Sprintf("rate %v: pairs of neighbours", p), pairs/(m*n), q, perPair, samples*n)
		checkMean(t, fmt.Sprintf("rate %v: one after the other", p), again/(m*n), q*(m-1)/m, perPair, samples*n)
	}
}

// A word of bits is in the sample if it is below the rate of all words: rates are rounded
// down, never up.
func TestPoissonSampleIsExact(t *testing.T) {
	for _, p := range []float64{0x1p-64, 3 * 0x1p-64, 0x1.8p-64, 0.1, 1. / 3, 0.5, 1 - 0x1p-53} {
		rate := testkit.Value(NewRate(p))
		if f := math.Ldexp(float64(rate.below), -64); f > p || rate.below == 0 || p > 0x1p-11 && f != p {
			t.Errorf("rate %v takes %d of 2^64 words", p, rate.below)
		}
		var words []byte
		for _, w := range []uint64{rate.below - 1, rate.below, 0, math.MaxUint64} {
			words = binary.LittleEndian.AppendUint64(words, w)
		}
		got, err := NewSourceFrom(bytes.NewReader(words)).PoissonSample([]int{9}, 4, rate)
		if err != nil || !slices.Equal(got, []int{9, 0, 2}) {
			t.Errorf("rate %v: sample %v, %v; want the first and the third", p, got, err)
		}
		if rate.Float() != p {
			t.Errorf("rate %v is %v", p, rate.Float())
		}
	}
}

// Rate 1 takes all units and needs no random bits.
func TestPoissonSampleOfAll(t *testing.T) {
	one := testkit.Value(NewRate(1))
	for _, n := range []int{0, 1, 5} {
		got, err := NewSourceFrom(bytes.NewReader(nil)).PoissonSample(nil, n, one)
		if err != nil || len(got) != n {
			t.Errorf("%v of %d, %v", got, n, err)
		}
		for i, u := range got {
			if u != i {
				t.Errorf("place %d holds %d", i, u)
			}
		}
	}
	if got, err := NewSource().PoissonSample(nil, 0, testkit.Value(NewRate(0.5))); err != nil || len(got) != 0 {
		t.Errorf("of nobody: %v, %v", got, err)
	}
}

func TestRatesAreRefused(t *testing.T) {
	for _, p := range []float64{0, math.Copysign(0, -1), -0.1, -1, 0x1p-65, math.SmallestNonzeroFloat64, 1 + 0x1p-52, 2,
		math.NaN(), math.Inf(1), math.Inf(-1)} {
		rate, err := NewRate(p)
		if !errors.Is(err, ErrParameter) || rate != (Rate{}) ||
			!strings.Contains(err.Error(), "sampling rate is "+fmt.Sprint(p)) {
			t.Errorf("rate %v: %v, %v", p, rate, err)
		}
	}
	if got, err := NewSource().PoissonSample([]int{1}, 5, Rate{}); !errors.Is(err, ErrParameter) || len(got) != 0 {
		t.Errorf("the zero Rate: %v, %v", got, err)
	}
}

// A broken source gives an empty sample: half a sample would have another rate.
func TestPoissonSampleOfABrokenSource(t *testing.T) {
	rate := testkit.Value(NewRate(0.9))
	for _, bytesLeft := range []int64{0, 7, 8, 80, 799} {
		src := NewSourceFrom(io.LimitReader(constant(0), bytesLeft)) // zeros select everybody
		got, err := src.PoissonSample([]int{7}, 100, rate)
		if err == nil || !slices.Equal(got, []int{7}) {
			t.Errorf("%d bytes: sample %v, %v", bytesLeft, got, err)
		}
	}
	got, err := NewSourceFrom(io.LimitReader(constant(0), 800)).PoissonSample(nil, 100, rate)
	if err != nil || len(got) != 100 {
		t.Errorf("with bytes for all: %d of them, %v", len(got), err)
	}
}
