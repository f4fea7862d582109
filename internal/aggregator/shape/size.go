package shape

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// A release too large to store would have to be refused, uncharged, after its noise was drawn, and that would reveal
// something about the votes. So the size is bounded before a node is asked, from the question alone, with the largest
// encoding of each number.

const (
	// maxNoisyVotes bounds a released count on both sides, so that it takes 7 bytes. Votes are at most 2^20 and the
	// scale of noise at most 2^38, so a count reaches the bound with a chance below exp(-1000). Clamping
	// post-processes the private value and costs nothing.
	maxNoisyVotes = int64(1)<<48 - 1
	// releaseFrame is the size of a release without its numbers: the run's name of 128 bytes, the question's hash of
	// 32, and tags, lengths and counters.
	releaseFrame = 320
)

func clampNoisyVotes(v int64) int64 { return min(max(v, -maxNoisyVotes), maxNoisyVotes) }

// signedBytes is the largest encoded size of a sint64 from -bound to bound.
func signedBytes(bound int64) int {
	return max(protowire.SizeVarint(protowire.EncodeZigZag(bound)),
		protowire.SizeVarint(protowire.EncodeZigZag(-bound)))
}

// Largest is the largest size of the release's numbers.
func (q *Votes) Largest() int {
	size := releaseFrame + q.asked*signedBytes(int64(q.classes-1))
	if q.whole {
		size += q.asked * q.classes * signedBytes(maxNoisyVotes)
	}
	return size
}
