package encode

import (
	"encoding/binary"
	"math"
)

// Packing is encoded rows in few bytes: a number takes four, a category one, or four if its column has many, an
// indicator one. Rows come back to the last bit.
type Packing struct {
	heads []Head
	width int
}

// Packing is that of the encoder's rows.
func (e *Encoder) Packing() *Packing {
	p := &Packing{heads: e.heads}
	for i := range e.heads {
		p.width += e.heads[i].packed()
	}
	return p
}

// Bytes is how many a row takes.
func (p *Packing) Bytes() int { return p.width }

func (h *Head) packed() int {
	if h.Kind == HeadNumber || h.Kind == HeadCategory && h.Width > math.MaxUint8+1 {
		return 4
	}
	return 1
}

// Pack packs one row, as the encoder made it.
func (p *Packing) Pack(to []byte, row []float32) {
	for i := range p.heads {
		h := &p.heads[i]
		f, n := row[h.Offset:h.Offset+h.Width], h.packed()
		switch {
		case h.Kind == HeadNumber:
			binary.LittleEndian.PutUint32(to, math.Float32bits(f[0]))
		case h.Kind == HeadCategory:
			at := 0
			for f[at] != 1 {
				at++
			}
			if to[0] = byte(at); n == 4 {
				binary.LittleEndian.PutUint32(to, uint32(at))
			}
		default:
			to[0] = byte(2 * f[0]) // 0, 1, or one half in place of an empty cell
		}
		to = to[n:]
	}
}

// Append appends a row that was packed.
func (p *Packing) Append(x []float32, from []byte) []float32 {
	for i := range p.heads {
		h := &p.heads[i]
		n := h.packed()
		switch {
		case h.Kind == HeadNumber:
			x = append(x, math.Float32frombits(binary.LittleEndian.Uint32(from)))
		case h.Kind == HeadCategory:
			at := int(from[0])
			if n == 4 {
				at = int(binary.LittleEndian.Uint32(from))
			}
			first := len(x)
			for range h.Width {
				x = append(x, 0)
			}
			x[first+at] = 1
		default:
			x = append(x, float32(from[0])/2)
		}
		from = from[n:]
	}
	return x
}
