package peer

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

const (
	// maxPending bounds the remembered unanswered rounds of a stream. A node queues up to 1,024 rounds and refuses
	// more.
	maxPending = 1 << 11
	// maxAnswered bounds the remembered answered rounds of a stream.
	maxAnswered = 16
)

// pending are the answers that a stream may still give: one to each round or permit sent to it. Otherwise a node
// could send endless late answers, and each looks normal. Callers check whether the round is still open. It is
// not safe for concurrent use.
type pending struct {
	open     []Round // sent and unanswered, oldest first
	answered []Round // the last few
	newest   uint64  // attempt sent last
	// forgotten counts answers that may still come to rounds no longer remembered.
	forgotten int
}

// ask adds a sent round. Attempts grow, except those of repeated permits.
func (p *pending) ask(r Round) {
	if len(p.open) == maxPending {
		p.open = append(p.open[:0], p.open[1:]...)
		p.forgotten++
	}
	p.open = append(p.open, r)
	p.newest = max(p.newest, r.Attempt)
}

// asked reports whether an answer to an attempt is due.
func (p *pending) asked(attempt uint64) bool {
	return slices.ContainsFunc(p.open, func(r Round) bool { return r.Attempt == attempt })
}

// answer uses up the answer to a round. It returns empty, fault.Late if the round was sent so long ago that it is
// forgotten, or why no answer is due.
func (p *pending) answer(r Round) fault.Kind {
	for i, sent := range p.open {
		if sent.Attempt != r.Attempt {
			continue
		}
		if sent != r {
			return fault.Foreign
		}
		p.open = append(p.open[:i], p.open[i+1:]...)
		if len(p.answered) == maxAnswered {
			p.answered = append(p.answered[:0], p.answered[1:]...)
		}
		p.answered = append(p.answered, sent)
		return ""
	}
	for _, sent := range p.answered {
		if r == sent {
			return fault.Duplicate
		}
	}
	if p.forgotten > 0 && r.Attempt > 0 && r.Attempt < p.newest {
		p.forgotten--
		return fault.Late
	}
	return fault.Foreign
}
