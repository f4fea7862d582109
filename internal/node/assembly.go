package node

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxRoundBytes bounds an assembled round; an aggregator accepts no larger one from a student.
const maxRoundBytes = 64 << 20

// received is a complete round.
type received struct {
	round *conclavev1.Round
	bytes int
	// digest is the hash of its bytes; see [question.Digest].
	digest func() string
	// checked is the parsed question, nil before.
	checked *question.Checked
}

type assembly struct {
	run   string
	round uint64
	parts uint32
	next  uint32
	data  []byte
	// broken is set when the round was refused, so that its remaining parts are not refused one by one.
	broken bool
	// terms and masked came with the first part.
	terms  *conclavev1.RoundTerms
	masked *conclavev1.MaskedRound
}

// toBePermitted is what a site decides by. For a pass that is the question that it serves, which is charged.
func (q *received) toBePermitted() *conclavev1.Permit {
	p := &conclavev1.Permit{
		Run: q.round.GetRun(), Round: q.round.GetNumber(), Kind: q.round.GetKind(), Planned: q.round.GetPlanned(),
		Queries: q.round.GetVotes().GetQueries(), Question: q.round.GetServes(),
	}
	if len(p.Question) == 0 {
		p.Question, _ = hex.DecodeString(q.digest()) // it is valid hex
	}
	return p
}

// add takes the next part, and returns the round once it is complete.
func (a *assembly) add(p *conclavev1.RoundPart) (*received, error) {
	if p.Part == 0 {
		*a = assembly{run: p.Run, round: p.Round, parts: p.Parts, terms: a.terms, masked: a.masked}
	} else if a.broken && p.Run == a.run && p.Round == a.round {
		return nil, nil
	}
	q, err := a.take(p)
	if err != nil {
		*a = assembly{run: p.Run, round: p.Round, broken: true}
	}
	return q, err
}

func (a *assembly) take(p *conclavev1.RoundPart) (*received, error) {
	switch {
	case !runspec.IsName(p.Run):
		return nil, fmt.Errorf("the run's name has %d bytes and is not valid; "+runspec.NameRule, len(p.Run))
	case p.Run != a.run || p.Round != a.round || p.Part != a.next || p.Parts != a.parts || p.Part >= p.Parts:
		return nil, fmt.Errorf("part %d of %d of round %d of run %q is out of order; ask the round again from its "+
			"first part", p.Part, p.Parts, p.Round, p.Run)
	case len(p.Data) == 0:
		return nil, fmt.Errorf("part %d of round %d of run %q is empty; ask the round again", p.Part, p.Round, p.Run)
	case len(a.data)+len(p.Data) > maxRoundBytes:
		return nil, fmt.Errorf("round %d of run %q has more than %d bytes; ask fewer records in a round",
			p.Round, p.Run, maxRoundBytes)
	}
	a.data = append(a.data, p.Data...)
	a.next++
	if a.next < a.parts {
		return nil, nil
	}
	// Computed now, because otherwise the bytes would stay in memory until somebody needs the digest.
	digest := question.Digest(a.data)
	q := &received{
		round: &conclavev1.Round{}, bytes: len(a.data),
		digest: func() string { return digest },
	}
	err := proto.Unmarshal(a.data, q.round)
	a.data = nil
	if err != nil {
		return nil, fmt.Errorf("round %d of run %q cannot be parsed: %w; "+
			"install matching versions of node, aggregator and student", p.Round, p.Run, err)
	}
	if q.round.Run != p.Run || q.round.Number != p.Round {
		return nil, fmt.Errorf("the parts of round %d of run %q contain another round; ask the round again",
			p.Round, p.Run)
	}
	return q, nil
}
