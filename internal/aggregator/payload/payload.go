// Package payload has rounds in transit: it assembles and reads the parts that a student sends, and makes the
// messages for nodes.
package payload

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxPartBytes bounds the data of one part, well under gRPC's 4 MiB.
	maxPartBytes = 1 << 20
	// MaxBytes bounds a round: 64 MiB are 500,000 records of 32 features.
	MaxBytes = 64 << 20
)

// Key is the idempotency key of a round.
type Key struct {
	Run    string
	Number uint64
}

// Payload is a complete round: its question, and the received parts, for the nodes.
type Payload struct {
	Key    Key
	Round  *conclavev1.Round
	Digest [sha256.Size]byte // of the bytes as the student serialized them
	Forget uint64            // lower rounds are never asked again
	Hold   bool              // keep the sums, also if the round was released
	// Room is the reserved part of a student's memory for the bytes. The owner of the payload takes it over.
	Room int

	parts []*conclavev1.RoundPart
}

// New is a round that the aggregator itself makes.
func New(round *conclavev1.Round) (*Payload, error) {
	data, err := proto.Marshal(round)
	if err != nil {
		return nil, fmt.Errorf("encode a round to the nodes: %w", err)
	}
	p := &Payload{Key: Key{Run: round.GetRun(), Number: round.GetNumber()}, Round: round}
	total := (len(data) + maxPartBytes - 1) / maxPartBytes
	for i := range total {
		p.parts = append(p.parts, &conclavev1.RoundPart{
			Run: p.Key.Run, Round: p.Key.Number, Part: uint32(i), Parts: uint32(total),
			Data: data[i*maxPartBytes : min(len(data), (i+1)*maxPartBytes)],
		})
	}
	return p, nil
}

// Encode serializes the parts once for all nodes. The first part carries the terms and, in a masked run, the members
// of the attempt, which are otherwise nil.
func (p *Payload) Encode(attempt uint64, terms *conclavev1.RoundTerms, masked *conclavev1.MaskedRound) (
	[]peer.Encoded, error,
) {
	out := make([]peer.Encoded, len(p.parts))
	for i, part := range p.parts {
		message := &conclavev1.WorkResponse{Attempt: attempt, Message: &conclavev1.WorkResponse_Part{Part: part}}
		if i == 0 {
			message.Terms, message.Masked = terms, masked
		}
		m, err := peer.Encode(message)
		if err != nil {
			return nil, err
		}
		out[i] = m
	}
	return out, nil
}

// Assembly assembles the parts of one round. The zero value is ready for use.
type Assembly struct {
	key   Key
	total uint32
	size  int
	parts []*conclavev1.RoundPart
}

// Add takes the next part. Parts must come in order.
func (a *Assembly) Add(p *conclavev1.RoundPart) error {
	if p == nil {
		return fault.Invalidf("an ask request has no round part")
	}
	if len(a.parts) == 0 {
		if err := spec.CheckName("run", p.GetRun()); err != nil {
			return err
		}
		if p.GetParts() == 0 || p.GetParts() > MaxBytes/maxPartBytes {
			return fault.Invalidf("round %d of run %q comes in %d parts; send 1 to %d parts of at most %d bytes",
				p.GetRound(), p.GetRun(), p.GetParts(), MaxBytes/maxPartBytes, maxPartBytes)
		}
		a.key = Key{Run: p.GetRun(), Number: p.GetRound()}
		a.total = p.GetParts()
	}
	switch {
	case a.Complete():
		return fault.Invalidf("round %d of run %q: a part after the last one", a.key.Number, a.key.Run)
	case p.GetRun() != a.key.Run || p.GetRound() != a.key.Number || p.GetParts() != a.total:
		return fault.Invalidf("parts of different rounds on one stream; use one stream per round")
	case int(p.GetPart()) != len(a.parts):
		return fault.Invalidf("round %d of run %q: got part %d, want part %d; send parts in order from 0",
			a.key.Number, a.key.Run, p.GetPart(), len(a.parts))
	case len(p.GetData()) == 0 || len(p.GetData()) > maxPartBytes:
		return fault.Invalidf("round %d of run %q: part %d holds %d bytes; send 1 to %d",
			a.key.Number, a.key.Run, p.GetPart(), len(p.GetData()), maxPartBytes)
	}
	a.size += len(p.GetData())
	// Only checked fields are kept and passed on. Fields unknown to this program are dropped.
	a.parts = append(a.parts, &conclavev1.RoundPart{
		Run: a.key.Run, Round: a.key.Number, Part: p.GetPart(), Parts: a.total, Data: p.GetData(),
	})
	return nil
}

// Complete reports whether all parts have arrived.
func (a *Assembly) Complete() bool { return a.total > 0 && len(a.parts) == int(a.total) }

// Size is the size of the parts so far, in bytes of data.
func (a *Assembly) Size() int { return a.size }

// Progress is the number of parts so far and the total.
func (a *Assembly) Progress() (parts, of int) { return len(a.parts), int(a.total) }

// Payload reads the round that the parts hold.
func (a *Assembly) Payload() (*Payload, error) {
	data := a.parts[0].GetData()
	if len(a.parts) > 1 {
		pieces := make([][]byte, len(a.parts))
		for i, p := range a.parts {
			pieces[i] = p.GetData()
		}
		data = bytes.Join(pieces, nil)
	}
	round := new(conclavev1.Round)
	if err := proto.Unmarshal(data, round); err != nil {
		return nil, fault.Invalidf("round %d of run %q cannot be read: %w", a.key.Number, a.key.Run, err)
	}
	if round.GetRun() != a.key.Run || round.GetNumber() != a.key.Number {
		return nil, fault.Invalidf("the parts are labelled round %d of run %q, but contain round %d of run %q",
			a.key.Number, a.key.Run, round.GetNumber(), round.GetRun())
	}
	return &Payload{Key: a.key, Round: round, Digest: sha256.Sum256(data), parts: a.parts}, nil
}
