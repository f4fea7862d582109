// Package votebits says how wide votes are in a conclavev1.Votes, for those that write them, count
// them and show them.
package votebits

// Width is the width of a packed vote: the fewest of 1, 2, 4 and 8 bits that hold a class of 2 to
// 256.
func Width(classes int) int {
	bits := 1
	for 1<<bits < classes {
		bits *= 2
	}
	return bits
}

// Row is the length of one teacher's packed votes: low bits first, padded with zeros to a
// whole byte.
func Row(queries, classes int) int { return (queries*Width(classes) + 7) / 8 }

// Vote is that on a query in one teacher's packed votes.
func Vote(row []byte, query, classes int) uint8 {
	bits := Width(classes)
	at := query * bits
	return row[at/8] >> (at % 8) & (1<<bits - 1)
}
