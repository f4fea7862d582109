package question

// voteBits is the width of a packed vote: the fewest of 1, 2, 4 and 8 bits that
// hold the classes.
func voteBits(classes int) int {
	bits := 1
	for 1<<bits < classes {
		bits *= 2
	}
	return bits
}

// RowBytes is the length of one teacher's packed votes.
func (h *Histogram) RowBytes() int {
	return (h.Queries*voteBits(h.Classes) + 7) / 8
}

// Pack writes votes, shape [teachers, queries], teacher by teacher, each row
// padded with zeros to a whole byte, low bits first, as conclavev1.Votes says.
func (h *Histogram) Pack(votes []uint8) []byte {
	bits, stride, teachers := voteBits(h.Classes), h.RowBytes(), len(votes)/h.Queries
	packed := make([]byte, teachers*stride)
	for t := range teachers {
		row := packed[t*stride : (t+1)*stride]
		for q, v := range votes[t*h.Queries : (t+1)*h.Queries] {
			row[q*bits/8] |= v << (q * bits % 8)
		}
	}
	return packed
}
