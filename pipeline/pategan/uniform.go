package pategan

import (
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/pipeline"
)

// spread replaces columns of every second query by uniform ones, so that the
// round also learns what is true where the generator does not go.
func (t *Trainer) spread(queries []float32) {
	w := t.generator.Width()
	row := make([]float32, w)
	for i := 0; i < len(queries)/w; i++ {
		if t.rng.Float64() >= t.opts.Student.Spread {
			continue
		}
		t.uniform(row)
		for k, h := range t.heads {
			if h.Kind == partition.HeadMissing {
				continue // goes with its number
			}
			hi := h.Offset + h.Width
			if k+1 < len(t.heads) && t.heads[k+1].Kind == partition.HeadMissing {
				hi++
			}
			if t.rng.IntN(2) == 0 {
				copy(queries[i*w+h.Offset:i*w+hi], row[h.Offset:hi])
			}
		}
	}
}

// uniform draws a record from the public ranges alone.
func (t *Trainer) uniform(row []float32) {
	for _, h := range t.heads {
		switch h.Kind {
		case partition.HeadNumber:
			row[h.Offset] = t.rng.Float32()
		case partition.HeadBinary, partition.HeadMissing:
			row[h.Offset] = float32(t.rng.IntN(2))
			if h.Kind == partition.HeadMissing && row[h.Offset] == 1 {
				row[h.Offset-1] = pipeline.EmptyNumber
			}
		case partition.HeadCategory:
			clear(row[h.Offset : h.Offset+h.Width])
			row[h.Offset+t.rng.IntN(h.Width)] = 1
		}
	}
}
