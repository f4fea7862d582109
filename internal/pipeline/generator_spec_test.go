package pipeline

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Specs that Check accepts can be built; NewGenerator also refuses those that Check refuses.
func TestGeneratorSpecCheck(t *testing.T) {
	spec := func(kind string, hidden, layers int) GeneratorSpec {
		return GeneratorSpec{Kind: kind, Noise: 4, Hidden: hidden, Layers: layers, Classes: 2}
	}
	table := partitiontest.Schema(t, testSchema)
	mnist := imageSchema(t, 28, 28, 1)
	for _, c := range []struct {
		schema *partition.Schema
		spec   GeneratorSpec
		says   string // empty: it is valid
	}{
		{mnist, spec("", 8, 2), ""},
		{mnist, spec(KindDense, 8, 3), ""},
		{mnist, spec(KindConvolution, 8, 2), ""},
		{mnist, spec(KindConvolution, 1, 2), ""},
		{imageSchema(t, 8, 8, 3), spec(KindConvolution, 8, 1), ""},
		{table, spec(KindDense, 8, 2), ""},
		{table, spec(KindConvolution, 8, 2), "needs a schema of images (format: idx)"},
		{mnist, spec("transformer", 8, 2), `"transformer" is unknown to this version: use dense or convolution`},
		{mnist, spec(KindConvolution, 8, 3),
			"28 x 28, which can be halved 2 times: use kind dense, or set layers to at most 2"},
		{imageSchema(t, 27, 28, 1), spec(KindConvolution, 8, 1),
			"images of 27 x 28, because a side is odd: use kind dense"},
		{mnist, spec(KindConvolution, 8, 0), "layers 0: set it to at least 1"},
		{mnist, spec(KindConvolution, 8, 65), "layers 65 is too large: set it to at most 64"},
		{mnist, spec("", -1, 2), "hidden -1: set it to at least 1"},
		{mnist, spec("", 1<<17, 2), "hidden 131072 is too large"},
		{mnist, spec(KindConvolution, 1<<16, 2), "weights is too large: set hidden or layers lower"},
		{mnist, spec(KindDense, 1<<16, 64), "weights is too large: set hidden or layers lower"},
		{mnist, GeneratorSpec{Noise: 0, Hidden: 1, Layers: 1, Classes: 1}, "noise 0"},
		{mnist, GeneratorSpec{Noise: 1, Hidden: 1, Layers: 1, Classes: 1 << 20}, "classes 1048576 is too large"},
	} {
		e := encode.New(c.schema)
		err := c.spec.Check(e)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v for %s: error is %v, want %q", c.spec, c.schema.Name, err, c.says)
		}
		if _, built := NewGenerator(e, c.spec, rand.New(rand.NewPCG(1, 1))); (built == nil) != (err == nil) {
			t.Errorf("%+v for %s: error of Check is %v, of NewGenerator %v", c.spec, c.schema.Name, err, built)
		}
	}
}
