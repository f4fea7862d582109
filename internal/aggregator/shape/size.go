package shape

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// A release that turned out too large to store would have to be refused after
// its noise was drawn, uncharged, and whether that happens would tell of the
// votes. So the size is bounded before a node is asked, from the question
// alone, as if every number took the most bytes that it can.

const (
	// maxNoisyVotes bounds a released count on both sides, so that it takes 7
	// bytes. Votes are at most 2^20 and noise has a scale of at most 2^38: that
	// a count comes to the bound has a chance below exp(-1000). Holding it there
	// works on what is private already and costs nothing.
	maxNoisyVotes = int64(1)<<48 - 1
	// releaseFrame is room for a release without its numbers: the run's name
	// of 128 bytes, the question's hash of 32, and tags, lengths and counters.
	releaseFrame = 320
)

func clampNoisyVotes(v int64) int64 { return min(max(v, -maxNoisyVotes), maxNoisyVotes) }

// signedBytes is the most bytes that a sint64 from -bound to bound takes.
func signedBytes(bound int64) int {
	return max(protowire.SizeVarint(protowire.EncodeZigZag(bound)),
		protowire.SizeVarint(protowire.EncodeZigZag(-bound)))
}

// Largest is room for the numbers of a release.
func (q *Votes) Largest() int {
	size := releaseFrame + q.asked*signedBytes(int64(q.classes-1))
	if q.whole {
		size += q.asked * q.classes * signedBytes(maxNoisyVotes)
	}
	return size
}
