// Package discriminatortest makes valid and invalid questions about discriminators of questiontest.SmallSchema,
// for tests of kinds that ask about discriminators.
package discriminatortest

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type (
	// Change is a change of a question.
	Change = func(q sum)

	sum     = *conclavev1.DiscriminatorSum
	network = *conclavev1.Discriminator
)

// Question asks for the gradients of a discriminator of SmallSchema, with weights of this spread.
func Question(seed uint64, spread float64, change Change) *conclavev1.DiscriminatorSum {
	q := &conclavev1.DiscriminatorSum{
		Discriminator: &conclavev1.Discriminator{
			Kind: conclavev1.Discriminator_KIND_DENSE, Hidden: 6, Layers: 1, Classes: 2,
			ByClass: conclavev1.Discriminator_CLASSES_EACH,
		},
		Loss: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Rate: 0.5, Clip: 0.8, Bound: 1 << 16,
	}
	if change != nil {
		change(q)
	}
	if q.Weights == nil && q.Discriminator != nil {
		q.Weights = safetensors.Bytes(Weights(Parameters(q.Discriminator), spread, seed))
	}
	return q
}

// Widths are the widths of the layers of a dense discriminator of SmallSchema, inputs first.
func Widths(d *conclavev1.Discriminator) []int {
	in, out := questiontest.SmallFeatures, 1
	switch {
	case d.Standard:
		in++
	case d.Pieces:
		in += 13
	}
	in += int(d.Fourier)
	if d.ByClass == conclavev1.Discriminator_CLASSES_EACH {
		out = 2
	} else {
		in += 2
	}
	w := []int{in}
	for range d.Layers {
		w = append(w, int(d.Hidden))
	}
	return append(w, out)
}

// Parameters is the number of weights of a dense discriminator of SmallSchema.
func Parameters(d *conclavev1.Discriminator) int {
	n, w := 0, Widths(d)
	for l := range w[1:] {
		n += (w[l] + 1) * w[l+1]
	}
	return n
}

// Weights draws weights with this spread.
func Weights(n int, spread float64, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 17))
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(spread * rng.NormFloat64())
	}
	return w
}

// Standard sets units of standard inputs.
func Standard(q *conclavev1.DiscriminatorSum) {
	q.Discriminator.Standard = true
	mean, scale := make([]float32, 2*questiontest.SmallFeatures), make([]float32, 2*questiontest.SmallFeatures)
	for i := range mean {
		mean[i], scale[i] = 0.1*float32(i%7), 1+0.3*float32(i)
	}
	shape := []uint32{2, questiontest.SmallFeatures}
	q.Mean = &conclavev1.Tensor{Shape: shape, Data: safetensors.Bytes(mean)}
	q.Scale = &conclavev1.Tensor{Shape: shape, Data: safetensors.Bytes(scale)}
}

// Networks returns changes that give questions about all kinds of networks for tables.
func Networks() map[string]Change {
	return map[string]Change{
		"each":        func(sum) {},
		"told":        func(q sum) { q.Discriminator.ByClass = conclavev1.Discriminator_CLASSES_TOLD },
		"wasserstein": func(q sum) { q.Loss = conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN },
		"linear": func(q sum) {
			q.Discriminator.Layers, q.Loss = 0, conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN
		},
		"two layers": func(q sum) { q.Discriminator.Layers, q.Clip = 2, 0.05 },
		"standard":   func(q sum) { Standard(q); q.Clip = 20 },
		"standard told": func(q sum) {
			Standard(q)
			q.Discriminator.ByClass = conclavev1.Discriminator_CLASSES_TOLD
			q.Loss = conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN
		},
		"pieces": func(q sum) { q.Discriminator.Pieces = true },
		"fourier": func(q sum) {
			d := q.Discriminator
			d.Pieces, d.Fourier, d.Seed, d.Layers = true, 20, 3, 0
		},
		"everybody":                             func(q sum) { q.Rate = 1 },
		"few steps":                             func(q sum) { q.Bound = 1 << 8 },
		"no weight is zero, and steps are many": func(q sum) { q.Bound = 1 << 20 },
	}
}

// Bad is a change that makes a question invalid, and a part of the expected reason.
type Bad struct {
	Change Change
	Want   string
}

// Spoiled are questions that no node answers.
func Spoiled() map[string]Bad {
	nan, inf := math.NaN(), math.Inf(1)
	weights := func(change func(w []float32) []float32) func(q sum) {
		return func(q sum) {
			q.Weights = safetensors.Bytes(change(Weights(Parameters(q.Discriminator), 0.5, 1)))
		}
	}
	units := func(change Change) Change {
		return func(q sum) { Standard(q); change(q) }
	}
	with := func(t *conclavev1.Tensor, at int, v float64) {
		x, _ := safetensors.Floats(t.Data)
		x[at] = float32(v)
		t.Data = safetensors.Bytes(x)
	}
	of := func(change Change, want string) Bad { return Bad{change, want} }
	spec := func(change func(d network), want string) Bad {
		return Bad{func(q sum) { q.Weights = []byte{}; change(q.Discriminator) }, want}
	}
	return map[string]Bad{
		"clip 0":        of(func(q sum) { q.Clip = 0 }, "clipped at 0"),
		"negative clip": of(func(q sum) { q.Clip = -2 }, "clipped at -2"),
		"clip NaN":      of(func(q sum) { q.Clip = nan }, "clipped at NaN"),
		"infinite clip": of(func(q sum) { q.Clip = inf }, "clipped at +Inf"),
		"tiny clip":     of(func(q sum) { q.Clip = 1e-19 }, "norm 1e-19"),
		"huge clip":     of(func(q sum) { q.Clip = 1e39 }, "norm 1e+39"),
		"no bound":      of(func(q sum) { q.Bound = 0 }, "bound of gradients is 0"),
		"small bound":   of(func(q sum) { q.Bound = 1<<8 - 1 }, "bound of gradients is 255"),
		"large bound":   of(func(q sum) { q.Bound = 1<<20 + 1 }, "bound of gradients is 1048577"),
		"absurd bound":  of(func(q sum) { q.Bound = math.MaxUint64 }, "bound of gradients is 18446744073709551615"),
		"rate 0":        of(func(q sum) { q.Rate = 0 }, "sampling rate is 0"),
		"rate above 1":  of(func(q sum) { q.Rate = 1.01 }, "sampling rate is 1.01"),
		"negative rate": of(func(q sum) { q.Rate = -0.5 }, "sampling rate is -0.5"),
		"rate NaN":      of(func(q sum) { q.Rate = nan }, "sampling rate is NaN"),
		"no loss":       of(func(q sum) { q.Loss = 0 }, "loss LOSS_UNSPECIFIED"),
		"unknown loss":  of(func(q sum) { q.Loss = 77 }, "loss 77"),
		"no network":    of(func(q sum) { q.Discriminator = nil }, "does not describe its discriminator"),
		"no weights": of(weights(func([]float32) []float32 { return []float32{} }),
			"0 weights for a discriminator of 50"),
		"a weight less": of(weights(func(w []float32) []float32 { return w[1:] }),
			"49 weights for a discriminator of 50"),
		"a weight more": of(weights(func(w []float32) []float32 { return append(w, 0) }),
			"51 weights for a discriminator of 50"),
		"part of one": of(func(q sum) { q.Weights = make([]byte, 201) }, "201 bytes are not a whole number"),
		"a weight of NaN": of(weights(func(w []float32) []float32 { w[7] = float32(nan); return w }),
			"weight 7 is not finite"),
		"infinite weight": of(weights(func(w []float32) []float32 { w[49] = float32(-inf); return w }),
			"weight 49 is not finite"),
		"no units": of(units(func(q sum) { q.Mean, q.Scale = nil, nil }),
			"units of 0 means and 0 scales"),
		"no mean":       of(units(func(q sum) { q.Mean = nil }), "units of 0 means and 10 scales"),
		"no scale":      of(units(func(q sum) { q.Scale = nil }), "units of 10 means and 0 scales"),
		"a mean of NaN": of(units(func(q sum) { with(q.Mean, 6, nan) }), "column 1 in class 1"),
		"infinite mean": of(units(func(q sum) { with(q.Mean, 2, inf) }), "column 2 in class 0"),
		"scale of NaN":  of(units(func(q sum) { with(q.Scale, 9, nan) }), "column 4 in class 1"),
		"scale 0":       of(units(func(q sum) { with(q.Scale, 0, 0) }), "column 0 in class 0"),
		"part of a scale": of(units(func(q sum) { q.Scale.Data = q.Scale.Data[1:] }),
			"not a whole number"),
		"no classes":      spec(func(d network) { d.Classes = 0 }, "a discriminator of 0 classes; the schema has 2"),
		"other classes":   spec(func(d network) { d.Classes = 3 }, "a discriminator of 3 classes; the schema has 2"),
		"unknown kind":    spec(func(d network) { d.Kind = 9 }, "kind"),
		"no kind":         spec(func(d network) { d.Kind = 0 }, "kind"),
		"no class rule":   spec(func(d network) { d.ByClass = 0 }, "class input CLASSES_UNSPECIFIED is unknown"),
		"a class rule":    spec(func(d network) { d.ByClass = 7 }, "class input 7 is unknown"),
		"cosines":         spec(func(d network) { d.Cosines = 4 }, "cosines are for images only"),
		"a convolution":   spec(func(d network) { d.Kind = conclavev1.Discriminator_KIND_CONVOLUTION }, "needs images"),
		"both features":   spec(func(d network) { d.Standard, d.Pieces = true, true }, "not both"),
		"no units wide":   spec(func(d network) { d.Hidden = 0 }, "hidden layers of 0 units"),
		"absurdly wide":   spec(func(d network) { d.Hidden = math.MaxUint32 }, "hidden layers of 4294967295 units"),
		"too many layers": spec(func(d network) { d.Layers = math.MaxUint32 }, "4294967295 layers"),
		"too large":       spec(func(d network) { d.Hidden, d.Layers = 1<<16, 16 }, "more than 131072 weights"),
		"absurd fourier":  spec(func(d network) { d.Fourier = math.MaxUint32 }, "4294967295 random features"),
	}
}
