package aggregator

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxPartBytes bounds the data of one part, well under gRPC's 4 MiB.
	maxPartBytes = 1 << 20
	// maxRoundBytes bounds a round: 64 MiB are 500,000 records of 32 features.
	maxRoundBytes = 64 << 20
)

// roundKey is the idempotency key of a round.
type roundKey struct {
	run    string
	number uint64
}

// assembly puts the parts of one round together.
type assembly struct {
	key   roundKey
	total uint32
	size  int
	parts []*conclavev1.RoundPart
}

// add takes the next part. The parts of a round come in order.
func (a *assembly) add(p *conclavev1.RoundPart) error {
	if p == nil {
		return invalidf("an ask request holds no round part")
	}
	if len(a.parts) == 0 {
		if err := checkName("run", p.GetRun()); err != nil {
			return err
		}
		if p.GetParts() == 0 || p.GetParts() > maxRoundBytes/maxPartBytes {
			return invalidf("round %d of run %q comes in %d parts; send 1 to %d parts of at most %d bytes",
				p.GetRound(), p.GetRun(), p.GetParts(), maxRoundBytes/maxPartBytes, maxPartBytes)
		}
		a.key = roundKey{run: p.GetRun(), number: p.GetRound()}
		a.total = p.GetParts()
	}
	switch {
	case a.complete():
		return invalidf("round %d of run %q: a part after the last one", a.key.number, a.key.run)
	case p.GetRun() != a.key.run || p.GetRound() != a.key.number || p.GetParts() != a.total:
		return invalidf("parts of different rounds on one stream; ask each round on a stream of its own")
	case int(p.GetPart()) != len(a.parts):
		return invalidf("round %d of run %q: part %d came where part %d was due; send parts in order from 0",
			a.key.number, a.key.run, p.GetPart(), len(a.parts))
	case len(p.GetData()) == 0 || len(p.GetData()) > maxPartBytes:
		return invalidf("round %d of run %q: part %d holds %d bytes; send 1 to %d",
			a.key.number, a.key.run, p.GetPart(), len(p.GetData()), maxPartBytes)
	}
	a.size += len(p.GetData())
	a.parts = append(a.parts, p)
	return nil
}

func (a *assembly) complete() bool {
	return a.total > 0 && len(a.parts) == int(a.total)
}

// payload is a complete round: what it asks, and the parts as they came, for the
// nodes.
type payload struct {
	key    roundKey
	round  *conclavev1.Round
	digest [sha256.Size]byte // of round
	parts  []*conclavev1.RoundPart
	size   int    // of the parts' data in bytes
	forget uint64 // rounds below it are never asked again
	hold   bool   // sums of scores are to be held, also of a round that was released
	terms  *conclavev1.RoundTerms
}

// payload reads the round that the parts hold.
func (a *assembly) payload() (*payload, error) {
	data := a.parts[0].GetData()
	if len(a.parts) > 1 {
		pieces := make([][]byte, len(a.parts))
		for i, p := range a.parts {
			pieces[i] = p.GetData()
		}
		data = bytes.Join(pieces, nil)
	}
	round := new(conclavev1.Round)
	if n := messagesIn(data, round.ProtoReflect().Descriptor(), maxRoundMessages); n > maxRoundMessages {
		return nil, invalidf("round %d of run %q holds more than %d messages in one", a.key.number, a.key.run, maxRoundMessages)
	}
	if err := proto.Unmarshal(data, round); err != nil {
		return nil, invalidf("round %d of run %q cannot be read: %w", a.key.number, a.key.run, err)
	}
	if round.GetRun() != a.key.run || round.GetNumber() != a.key.number {
		return nil, invalidf("the parts say round %d of run %q, the round in them says round %d of run %q",
			a.key.number, a.key.run, round.GetNumber(), round.GetRun())
	}
	return &payload{key: a.key, round: round, digest: digestOf(round), parts: a.parts}, nil
}

// newPayload is a round of the aggregator's own making.
func newPayload(round *conclavev1.Round) (*payload, error) {
	data, err := proto.Marshal(round)
	if err != nil {
		return nil, fmt.Errorf("encode a round to the nodes: %w", err)
	}
	p := &payload{key: roundKey{run: round.GetRun(), number: round.GetNumber()}, round: round}
	total := (len(data) + maxPartBytes - 1) / maxPartBytes
	for i := range total {
		p.parts = append(p.parts, &conclavev1.RoundPart{
			Run: p.key.run, Round: p.key.number, Part: uint32(i), Parts: uint32(total), Data: data[i*maxPartBytes : min(len(data), (i+1)*maxPartBytes)],
		})
	}
	return p, nil
}

// encode serializes the parts for the nodes, once for all of them.
func (p *payload) encode(attempt uint64) ([]peer.Encoded, error) {
	out := make([]peer.Encoded, len(p.parts))
	for i, part := range p.parts {
		message := &conclavev1.WorkResponse{Attempt: attempt, Message: &conclavev1.WorkResponse_Part{Part: part}}
		if i == 0 {
			message.Terms = p.terms
		}
		m, err := peer.Encode(message)
		if err != nil {
			return nil, err
		}
		out[i] = m
	}
	return out, nil
}
