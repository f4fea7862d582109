package peer

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

const (
	// maxPending bounds the unanswered rounds that are remembered of a stream. A node keeps up to
	// 1,024 that wait, and refuses more.
	maxPending = 1 << 11
	// maxAnswered bounds the answered rounds that are remembered of a stream.
	maxAnswered = 16
)

// pending are the answers that a stream may give: one to each round, or permit, that it was sent. Whether
// the round is still open is for others to know; without this a node could send late answers
// without end, each of which looks like normal work. It is not safe for use by several
// goroutines.
type pending struct {
	open     []Round // sent and not answered, oldest first
	answered []Round // the last few
	newest   uint64  // attempt sent last
	// forgotten is the number of answers that may still come to rounds that are not remembered.
	forgotten int
}

// ask adds a round that is sent. Attempts grow, but for permits that are asked again.
func (p *pending) ask(r Round) {
	if len(p.open) == maxPending {
		p.open = append(p.open[:0], p.open[1:]...)
		p.forgotten++
	}
	p.open = append(p.open, r)
	p.newest = max(p.newest, r.Attempt)
}

// asked says that an answer to an attempt is due.
func (p *pending) asked(attempt uint64) bool {
	return slices.ContainsFunc(p.open, func(r Round) bool { return r.Attempt == attempt })
}

// answer uses up the answer to a round: fault.Late where the round was sent so long ago that
// it is not remembered, otherwise empty, or why there is none.
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
