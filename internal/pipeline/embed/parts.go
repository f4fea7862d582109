package embed

import (
	"math"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/partition/encode"
)

// featureSeed draws waves and pairs. It is public, and the same in all runs.
const featureSeed = 1

// patchSeed draws the waves of patches.
const patchSeed = 101

// parts returns the groups of features. The first is the count.
func (o Options) parts() []embedding.Part {
	f := o.Features
	parts := []embedding.Part{{Kind: embedding.Ones, Weight: f.Count}}
	if f.Columns > 0 {
		parts = append(parts, o.columns(f.Bins))
	}
	if f.Pairs > 0 {
		parts = append(parts, o.pairs(f.MostPairs))
	}
	if f.Fourier > 0 {
		for i, scale := range f.Scales {
			parts = append(parts, embedding.Part{
				Kind: embedding.Fourier, Weight: f.Fourier / math.Sqrt(float64(len(f.Scales))), Count: f.Waves,
				Spread: 1 / scale, Seed: featureSeed + uint64(i),
			})
		}
	}
	if f.Patches > 0 {
		for i, scale := range patchScales {
			parts = append(parts, o.patches(f.PatchWaves/len(patchScales), i, scale))
		}
	}
	return parts
}

// patchScales are the length scales of the waves of patches, whose pixels are from 0 to 1.
var patchScales = []float64{1, 0.5}

func (o Options) patches(count, i int, scale float64) embedding.Part {
	return embedding.Part{
		Kind: embedding.Patches, Weight: o.Features.Patches / math.Sqrt(float64(len(patchScales))),
		Count: count, Spread: 1 / scale, Seed: patchSeed + uint64(i),
	}
}

func (o Options) columns(bins int) embedding.Part {
	return embedding.Part{Kind: embedding.Columns, Weight: o.Features.Columns, Bins: bins}
}

func (o Options) pairs(count int) embedding.Part {
	return embedding.Part{Kind: embedding.Pairs, Weight: o.Features.Pairs, Bins: o.Features.PairBins, Count: count,
		Seed: featureSeed}
}

// mostNumbers is the size of a release by default: half of the limit.
const mostNumbers = embedding.MaxSize / 2

// fit chooses bins, waves and pairs so that a release has room for them: fewer if there are many columns or
// classes. Values set by hand stay.
func (o *Options) fit(e *encode.Encoder, classes int, set Features) {
	f, room := &o.Features, mostNumbers/max(1, classes)
	images := e.Image() != nil
	if f.PatchWaves == 0 {
		f.PatchWaves = 32
		if images {
			f.PatchWaves = max(2, min(32, room/2/numbers(e, o.patches(1, 0, 1))/2*2))
		}
	}
	if f.Waves == 0 {
		waves := 200
		if images {
			waves = 1000 / len(f.Scales)
		}
		f.Waves = max(1, min(waves, room/(8*len(f.Scales))))
	}
	if f.Bins == 0 {
		for f.Bins = 20; !images && f.Bins > 2 && numbers(e, o.columns(f.Bins)) > room/4; {
			f.Bins--
		}
	}
	if set.Columns == -1 && f.Columns > 0 && numbers(e, o.columns(f.Bins)) > room/2 {
		f.Columns = 0
	}
	pairs := 400
	for !images && pairs > 0 {
		if n := numbers(e, o.pairs(pairs)); n > 0 && n <= room/2 {
			break
		}
		pairs = pairs * 3 / 4
	}
	switch {
	case f.MostPairs > 0:
	case pairs > 0:
		f.MostPairs = pairs
	default: // there are no pairs, or no room for one
		f.MostPairs = 1
		if set.Pairs == -1 {
			f.Pairs = 0
		}
	}
}

// numbers is the size of a part. If the part cannot be made, the size is above all limits.
func numbers(e *encode.Encoder, p embedding.Part) int {
	p.Weight = 1
	f, err := embedding.New(e, 1, []embedding.Part{p})
	if err != nil {
		return embedding.MaxSize + 1
	}
	return f.Count()
}

// question builds the question of the chosen options, with the features.
func (o Options) question(e *encode.Encoder, classes int) (*Question, *embedding.Features, error) {
	parts := o.parts()
	f, err := embedding.New(e, classes, parts)
	if err != nil {
		return nil, nil, err
	}
	return &Question{Classes: classes, Parts: parts, Entries: classes * f.Count(), Norm: f.Norm()}, f, nil
}

// Question builds the question of the chosen options.
func (o Options) Question(e *encode.Encoder, classes int) (*Question, error) {
	q, _, err := o.question(e, classes)
	return q, err
}
