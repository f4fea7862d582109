package pategan

import "github.com/conclave-dp/conclave/partition/encode"

// spread replaces columns of every second query by uniform ones, so that the
// round also learns what is true where the generator does not go.
func (t *Trainer) spread(queries []float32) {
	w := t.Learner.Generator.Width()
	row := make([]float32, w)
	for i := 0; i < len(queries)/w; i++ {
		if t.Rand.Float64() >= t.opts.Student.Spread {
			continue
		}
		t.mover.Uniform(row)
		for k, h := range t.heads {
			if h.Kind == encode.HeadMissing {
				continue // goes with its number
			}
			hi := h.Offset + h.Width
			if k+1 < len(t.heads) && t.heads[k+1].Kind == encode.HeadMissing {
				hi++
			}
			if t.Rand.IntN(2) == 0 {
				copy(queries[i*w+h.Offset:i*w+hi], row[h.Offset:hi])
			}
		}
	}
}
