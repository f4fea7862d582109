package shape

import (
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/votebits"
)

// tallies pools the histograms of answers, as *[]int64. Without it they would be most of a round's garbage.
var tallies sync.Pool

func newTally(n int) []int64 {
	if t, ok := tallies.Get().(*[]int64); ok && cap(*t) >= n {
		counts := (*t)[:n]
		clear(counts)
		return counts
	}
	return make([]int64, n)
}

// tallyVotes counts the packed votes of `teachers` teachers over `queries` queries into a histogram of queries x
// classes counts, row-major, laid out as conclavev1.Votes. It refuses a wrong length, nonzero padding and a class out
// of range; its errors name no vote.
func tallyVotes(packed []byte, teachers, queries, classes int) ([]int64, error) {
	row := votebits.Row(queries, classes)
	if len(packed) > teachers*row {
		return nil, fault.Oversizedf("got %d bytes of votes, want %d teachers x %d bytes", len(packed), teachers,
			row)
	}
	if len(packed) < teachers*row {
		return nil, fmt.Errorf("got %d bytes of votes, want %d teachers x %d bytes", len(packed), teachers, row)
	}
	if used := queries * votebits.Width(classes) % 8; used != 0 {
		padding := byte(0xff) << used
		for t := range teachers {
			if packed[(t+1)*row-1]&padding != 0 {
				return nil, fmt.Errorf("padding bits after the last vote are not zero (teacher %d)", t)
			}
		}
	}
	counts := newTally(queries * classes)
	if err := votebits.Count(counts, packed, teachers, queries, classes); err != nil {
		return nil, fault.OutOfRangef("%w", err)
	}
	return counts, nil
}
