// Package round answers rounds: it asks the nodes of a dataset, adds up what they answer, draws
// the noise, charges the ledger, and only then has a release. It knows no gRPC. What a question
// asks and how its release is drawn is behind [Question].
//
// A [Dataset] holds the nodes that are connected for it. An [Execution] is one round being
// answered; it looks at the nodes of its dataset whenever something changed, so that joining,
// leaving and answering need no order. [Rounds] decides which round is answered, and from what.
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
	// Fits says whether the answer of a node with so many teachers can be sent in one
	// message.
	Fits(teachers uint32) error
	// Largest is the most bytes that the stored release can have.
	Largest() int
	// Queries is how often the mechanism of the plan's entry is used.
	Queries() int64
	// Answer draws the release from the summed counts, writes it to r, and returns how many
	// queries it answered.
	Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (answered int64, err error)
}

// Recycler is a question that takes back what Read returned, once it is added up.
type Recycler interface {
	Recycle(counts []int64)
}

// Cacher is a question whose sums are cached for selections of later rounds.
type Cacher interface {
	// Sums are what is selected by, and how far a privacy unit moves one.
	Sums(counts []int64) (sums []int64, bound int64)
}

// Selector is a question that is answered from cached sums, and asks no node.
type Selector interface {
	// By are the sums that it selects by.
	By() Sums
}

// Reducer is a question whose counts take several passes over the nodes.
type Reducer interface {
	// Reduce returns the counts. ctx ends when answers are no longer collected.
	Reduce(ctx context.Context, pass Pass) (counts []int64, err error)
}

// Masked is a question of a masked run, whose sum is opened with the noise in it.
type Masked interface {
	Question
	// Share is the noise that each site adds.
	Share() gnmax.Share
}

// Pass asks all nodes once more, by parameters of the round's kind, and returns the sums of
// their answers. Changed says that other nodes answered than in the pass before.
type Pass func(q Question, params []byte, sum *conclavev1.Vector) (sums []int64, changed bool, err error)

// Parse checks what a round asks against its run. cached returns the sums of a round, as far as
// they are cached.
type Parse func(r *conclavev1.Round, s *spec.Spec, cached func(round uint64) (Sums, bool)) (Question, error)

// Sums are sums without noise. They are PRIVATE, live in the memory of the aggregator that
// collected them, and nowhere else: another one has to collect them again.
type Sums struct {
	Round uint64
	// Planned is the place of the plan's entry that they were asked under: sites charged that one.
	Planned int
	Bound   int64
	Sums    []int64

	teachers     taken
	contributors map[*peer.Session]peer.ID
}

// ErrNotCached says that sums have to be collected again; see AskRequest.hold.
func ErrNotCached(run string, round uint64) error {
	return fault.NotFoundf("the sums of round %d of run %q are not cached here; ask for that round again, "+
		"to have them cached", round, run)
}

// timed says whether the time of a question may be told. That of a fit is the time of its
// passes, and says nothing of use.
func timed(q Question) bool {
	_, reduces := q.(Reducer)
	_, selects := q.(Selector)
	return !reduces && !selects
}
