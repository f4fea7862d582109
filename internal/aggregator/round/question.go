// Package round answers rounds: it asks the nodes of a dataset, adds up their answers, draws the noise, charges the
// ledger, and only then returns a release. It knows no gRPC. [Question] hides what a question asks and how its
// release is drawn.
//
// A [Dataset] has its connected nodes. An [Execution] is one round being answered; it checks the nodes of its dataset
// whenever something changed, so joins, leaves and answers may come in any order. [Rounds] decides which round is
// answered, and from what.
package round

import (
	"context"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Question is what a round asks of the nodes.
type Question interface {
	// Length is the number of counts that are added up over the nodes.
	Length() int
	// Read checks one node's answer and returns its counts.
	Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error)
	// Fits returns an error if the answer of a node with this many teachers exceeds one message.
	Fits(teachers uint32) error
	// Largest is the largest size of the stored release, in bytes.
	Largest() int
	// Queries is how often the mechanism of the plan entry is used.
	Queries() int64
	// Answer draws the release from the summed counts, writes it to r, and returns how many
	// queries it answered.
	Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (answered int64, err error)
}

// Recycler is a question that reuses what Read returned once it was added up.
type Recycler interface {
	Recycle(counts []int64)
}

// Cacher is a question whose sums are cached for selections of later rounds.
type Cacher interface {
	// Sums returns the sums to select by, and how far a privacy unit moves one of them.
	Sums(counts []int64) (sums []int64, bound int64)
}

// Selector is a question that is answered from cached sums without asking a node.
type Selector interface {
	// By returns the sums that it selects by.
	By() Sums
}

// Reducer is a question whose counts take several passes over the nodes.
type Reducer interface {
	// Reduce returns the counts. ctx ends when answers are no longer collected.
	Reduce(ctx context.Context, pass Pass) (counts []int64, err error)
}

// Masked is a question of a masked run, whose sum opens with the noise included.
type Masked interface {
	Question
	// Share is the noise that each site adds.
	Share() gnmax.Share
}

// Pass asks all nodes once more, with parameters of the round's kind, and returns the sums of their answers. Changed
// reports that different nodes answered from those in the pass before.
type Pass func(q Question, params []byte, sum *conclavev1.Vector) (sums []int64, changed bool, err error)

// Parse checks a round's question against its run. cached returns the sums of a round if they are cached.
type Parse func(r *conclavev1.Round, s *spec.Spec, cached func(round uint64) (Sums, bool)) (Question, error)

// Sums are sums without noise. They are PRIVATE and live only in the memory of the aggregator that collected them:
// another aggregator has to collect them again.
type Sums struct {
	Round uint64
	// Planned is the index of the plan entry that they were asked under: sites charged that entry.
	Planned int
	Bound   int64
	Sums    []int64

	teachers     taken
	contributors map[*peer.Session]peer.ID
}

// ErrNotCached says that sums must be collected again; see AskRequest.hold.
func ErrNotCached(run string, round uint64) error {
	return fault.NotFoundf("the sums of round %d of run %q are not cached; ask that round again to cache "+
		"them", round, run)
}

// timed reports whether the duration of a question may be revealed. A fit's may not: it is the time of its passes,
// and useless to operators.
func timed(q Question) bool {
	_, reduces := q.(Reducer)
	_, selects := q.(Selector)
	return !reduces && !selects
}
