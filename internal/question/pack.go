package question

import "github.com/conclave-dp/conclave/internal/votebits"

// RowBytes is the length of one teacher's packed votes.
func (h *Histogram) RowBytes() int { return votebits.Row(h.Queries, h.Classes) }

// Pack writes votes, shape [teachers, queries], teacher by teacher, each row
// padded with zeros to a whole byte, low bits first, as conclavev1.Votes says.
func (h *Histogram) Pack(votes []uint8) []byte {
	bits, stride, teachers := votebits.Width(h.Classes), h.RowBytes(), len(votes)/h.Queries
	packed := make([]byte, teachers*stride)
	for t := range teachers {
		row := packed[t*stride : (t+1)*stride]
		for q, v := range votes[t*h.Queries : (t+1)*h.Queries] {
			row[q*bits/8] |= v << (q * bits % 8)
		}
	}
	return packed
}
