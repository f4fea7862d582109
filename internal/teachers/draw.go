package teachers

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type message interface {
	batch
	proto.Message
}

// drawn replaces the records of a valid batch by uniform random numbers, each with a class up to the batch's
// largest. They are public, like a student's generated records.
func drawn[B message](params []byte, rng *rand.Rand) []byte {
	var none B
	q := none.ProtoReflect().Type().New().Interface().(B)
	if question.Unmarshal(params, q) != nil {
		return params
	}
	records := func(t *conclavev1.Tensor, classes []uint32) {
		for at := 0; at+4 <= len(t.GetData()); at += 4 {
			binary.LittleEndian.PutUint32(t.Data[at:], math.Float32bits(rng.Float32()))
		}
		for i := range classes {
			classes[i] = uint32(rng.IntN(int(classes[i]) + 1))
		}
	}
	records(q.GetTraining(), q.GetTrainingClasses())
	records(q.GetQueries(), q.GetQueryClasses())
	return question.Marshal(q)
}
