package question

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Ask returns the round that asks a question of a kind. The sender sets its run, its number and the plan's entry
// that pays.
func Ask(kind string, params proto.Message, shape Shape) *conclavev1.Round {
	r := &conclavev1.Round{Kind: kind, Params: Marshal(params)}
	shape.put(r)
	return r
}

// Marshal encodes parameters deterministically, since a question that is asked again is identified by its bytes.
func Marshal(params proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(params)
	if err != nil {
		panic(err) // only invalid text can fail, and parameters contain no text
	}
	return raw
}

// Digest identifies a question: the SHA-256 of a round as its student serialized it.
func Digest(round []byte) string {
	sum := sha256.Sum256(round)
	return hex.EncodeToString(sum[:])
}

var norms = map[Norm]conclavev1.Vector_Norm{
	L1: conclavev1.Vector_NORM_L1, L2: conclavev1.Vector_NORM_L2, Each: conclavev1.Vector_NORM_EACH,
}

var contributors = map[Contributor]conclavev1.Vector_Per{
	PerUnit: conclavev1.Vector_PER_UNIT, PerTeacher: conclavev1.Vector_PER_TEACHER,
}

func (s Shape) put(r *conclavev1.Round) {
	if h := s.Votes; h != nil {
		r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{
			Queries: uint32(h.Queries), Classes: uint32(h.Classes),
		}}
	}
	if v := s.Sum; v != nil {
		r.Shape = &conclavev1.Round_Sum{Sum: &conclavev1.Vector{
			Entries: uint32(v.Entries), Bound: uint64(v.Bound), Norm: norms[v.Norm], Per: contributors[v.Per],
			Rate: v.Rate, Counts: v.Counts,
		}}
	}
}

// Check refuses a round whose shape differs from that of its parameters: the aggregator draws noise for the shape
// in the round.
func (s Shape) Check(r *conclavev1.Round) error {
	own := new(conclavev1.Round)
	s.put(own)
	if proto.Equal(own.GetVotes(), r.GetVotes()) && proto.Equal(own.GetSum(), r.GetSum()) {
		return nil
	}
	return fmt.Errorf("the round gives answers the shape {%v%v}, but its parameters ask for {%v%v}; install matching "+
		"versions of node and student", r.GetVotes(), r.GetSum(), own.GetVotes(), own.GetSum())
}
