package shape

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/votebits"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Bounds of a shape. They keep a node's votes below gRPC's 4 MiB, every release below coordinator.MaxRelease whatever
// its noise, and drawing the noise of a round within seconds.
const (
	maxQueries       = 1 << 16
	maxCounts        = 1 << 17
	maxEntries       = 1 << 21
	maxAnswerClasses = 256
	// maxAnswerBytes leaves room for the fields around packed votes.
	maxAnswerBytes = (4 << 20) - 1024
)

// Votes asks every teacher for one class per query. Each query is charged.
type Votes struct {
	asked, classes int
	Mechanism      gnmax.Mechanism // draws the answers
	Charged        privacy.Event   // per query
	whole          bool
}

func newVotes(h *conclavev1.Histogram, planned privacy.Planned, run *spec.Spec) (*Votes, error) {
	mechanism, err := spec.VoteMechanism(planned)
	if err != nil {
		return nil, fault.Invalidf("run %q: %w", run.PB.GetName(), err)
	}
	queries, classes := h.GetQueries(), h.GetClasses()
	switch {
	case classes < 2 || classes > maxAnswerClasses:
		return nil, fault.Invalidf("the round asks for votes between %d classes; use 2 to "+
			"%d", classes, maxAnswerClasses)
	case queries == 0 || queries > maxQueries:
		return nil, fault.Invalidf("a round asks %d queries; ask 1 to %d", queries, maxQueries)
	case queries*classes > maxCounts:
		return nil, fault.Invalidf("%d queries x %d classes are more than %d counts; ask fewer queries in a round",
			queries, classes, maxCounts)
	}
	return &Votes{
		asked: int(queries), classes: int(classes), Mechanism: mechanism,
		Charged: planned.Mechanism, whole: planned.Variant == privacy.Histogram,
	}, nil
}

func (q *Votes) Length() int { return q.asked * q.classes }

func (q *Votes) Fits(teachers uint32) error {
	if bytes := int(teachers) * votebits.Row(q.asked, q.classes); bytes > maxAnswerBytes {
		return fmt.Errorf("the votes of %d teachers on %d queries take %d bytes, more than a message holds (%d); "+
			"ask fewer queries in a round",
			teachers, q.asked, bytes, maxAnswerBytes)
	}
	return nil
}

func (q *Votes) Read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	votes := answer.GetVotes()
	if votes == nil {
		return nil, fmt.Errorf("got a sum, want votes")
	}
	if votes.GetTeachers() != teachers {
		return nil, fmt.Errorf("got votes of %d teachers, but the node has %d", votes.GetTeachers(), teachers)
	}
	if int(votes.GetQueries()) != q.asked {
		return nil, fmt.Errorf("got votes on %d queries, want %d", votes.GetQueries(), q.asked)
	}
	return tallyVotes(votes.GetPacked(), int(teachers), q.asked, q.classes)
}

// Recycle reuses what Read returned. The caller must not use it afterwards.
func (q *Votes) Recycle(counts []int64) { tallies.Put(&counts) }

func (q *Votes) Queries() int64 { return int64(q.asked) }

func (q *Votes) Answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (int64, error) {
	out := &conclavev1.NoisyVotes{
		Classes: uint32(q.classes),
		Labels:  make([]int32, q.asked),
	}
	if q.whole {
		out.Histogram = make([]int64, q.asked*q.classes)
	}
	answered := int64(0)
	for i := range q.asked {
		a, err := q.Mechanism.Answer(src, counts[i*q.classes:(i+1)*q.classes])
		if err != nil {
			return 0, fmt.Errorf("draw the answer to query %d: %w", i, err)
		}
		out.Labels[i] = -1
		if !a.Answered {
			continue
		}
		answered++
		out.Labels[i] = int32(a.Winner)
		if q.whole {
			for class, v := range a.Noisy {
				out.Histogram[i*q.classes+class] = clampNoisyVotes(v)
			}
		}
	}
	r.Answer = &conclavev1.Release_Votes{Votes: out}
	return answered, nil
}
