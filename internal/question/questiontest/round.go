package questiontest

import (
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// small is the public description of a node of SmallSchema. Each caller gets its own: kinds cache things in it, and
// tests run in parallel.
func small() *question.Public {
	schema, err := partition.ParseSchema([]byte(SmallSchema))
	if err != nil {
		panic(err)
	}
	return question.NewPublic(schema, teachers, 1)
}

// Round asks nodes of SmallSchema a question; see [RoundOf].
func Round(k question.Kind, params proto.Message) *conclavev1.Round {
	return RoundOf(small(), k, params)
}

// RoundOf asks a question as a student does, with its shape. A question that the kind refuses has no shape. A pass
// serves a round of zeros.
func RoundOf(p *question.Public, k question.Kind, params proto.Message) *conclavev1.Round {
	var shape question.Shape
	if checked, err := k.Read(p, question.Marshal(params)); err == nil {
		shape = checked.Shape
	}
	r := question.Ask(k.Name, params, shape)
	if k.Passes > 0 {
		r.Serves = make([]byte, 32)
	}
	return r
}

// Change changes the parameters of a round, but not its shape.
func Change[P proto.Message](r *conclavev1.Round, change func(P)) *conclavev1.Round {
	var none P
	params := none.ProtoReflect().Type().New().Interface().(P)
	if err := proto.Unmarshal(r.GetParams(), params); err != nil {
		panic(err)
	}
	change(params)
	r.Params = question.Marshal(params)
	return r
}
