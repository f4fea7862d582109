package node

// voteBits is the width of a packed vote: the fewest of 1, 2, 4 and 8 bits that
// hold the answer classes.
func voteBits(answerClasses int) int {
	bits := 1
	for 1<<bits < answerClasses {
		bits *= 2
	}
	return bits
}

// rowBytes is the length of one teacher's packed votes.
func rowBytes(queries, answerClasses int) int {
	return (queries*voteBits(answerClasses) + 7) / 8
}

// pack writes votes, shape [teachers, queries], teacher by teacher, each row
// padded with zeros to a whole byte, low bits first, as conclavev1.Votes says.
func pack(votes []uint8, teachers, queries, answerClasses int) []byte {
	bits, stride := voteBits(answerClasses), rowBytes(queries, answerClasses)
	packed := make([]byte, teachers*stride)
	for t := range teachers {
		row := packed[t*stride : (t+1)*stride]
		for q, v := range votes[t*queries : (t+1)*queries] {
			row[q*bits/8] |= v << (q * bits % 8)
		}
	}
	return packed
}
