package payload

import (
	"encoding/hex"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestDigestIsOfTheQuestionNotOfItsBytes(t *testing.T) {
	for _, number := range []uint64{0, 5} {
		round := roundtest.VoteRound("r", number, 7)
		round.GetVote().QueryClasses[3] = 1
		want, err := proto.Marshal(round)
		testkit.Must(t, err)
		other := roundtest.OtherBytes(t, round)
		if string(other) == string(want) {
			t.Fatal("the two forms are the same")
		}
		read := new(conclavev1.Round)
		testkit.Must(t, proto.Unmarshal(other, read))
		if digestOf(read) != digestOf(round) {
			t.Errorf("round %d: other bytes make another question", number)
		}
	}
}

// Whatever a round may say, saying it otherwise gives another digest.
func TestDigestCoversEveryField(t *testing.T) {
	full := roundtest.VoteRound("r", 3, 4)
	sum := roundtest.Gradients(4)
	sum.Projection = &conclavev1.Projection{Directions: 2}
	units := roundtest.DiscriminatorRound("r", 3, 2,
		func(q *conclavev1.DiscriminatorSum) { q.Mean, q.Scale = roundtest.Tensor(2, 3), roundtest.Tensor(2, 3) })
	scores := roundtest.ScoreRound("r", 3, []int64{1, 2}, func(q *conclavev1.ScoreSum) {
		q.Discriminators[1].Mean, q.Discriminators[1].Scale = roundtest.Tensor(2, 3), roundtest.Tensor(2, 3)
	})
	for _, round := range []*conclavev1.Round{
		full, roundtest.CountRound("r", 3, 2, 9), roundtest.BinRound("r", 3, roundtest.Bins(4)),
		roundtest.GradientRound("r", 3, sum), roundtest.DiscriminatorRound("r", 3, 2, nil), units,
		roundtest.EmbeddingRound("r", 3, 2, nil), scores, roundtest.SelectionRound("r", 3, []int64{1}, nil),
		roundtest.FitRound("r", 3, nil), {},
	} {
		seen := map[[32]byte]string{digestOf(round): "the round itself"}
		changes := 0
		eachChange(round.ProtoReflect(), "", func(name string) {
			changes++
			digest := digestOf(round)
			if before, twice := seen[digest]; twice {
				t.Errorf("%s has the digest of %s", name, before)
			}
			seen[digest] = name
		})
		if changes < 3 {
			t.Errorf("only %d changes were made", changes)
		}
		if seen[digestOf(round)] != "the round itself" {
			t.Error("the changes were not taken back")
		}
	}
}

// eachChange changes one field of m after the other, or of a message in it,
// calls visit, and takes the change back.
func eachChange(m protoreflect.Message, path string, visit func(name string)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := path + "/" + string(f.Name())
		had, before := m.Has(f), m.Get(f)
		back := func() {
			if had {
				m.Set(f, before)
			} else {
				m.Clear(f)
			}
		}
		switch {
		case f.IsMap():
			panic("digestOf does not know maps: " + name)
		case f.ContainingOneof() != nil && !had:
			// Setting it would clear another one of its kind.
		case f.IsList():
			list := before.List()
			kept, longer, shorter := m.NewField(f), m.NewField(f), m.NewField(f)
			for j := range list.Len() {
				kept.List().Append(list.Get(j))
				longer.List().Append(list.Get(j))
				if j > 0 {
					shorter.List().Append(list.Get(j))
				}
			}
			longer.List().Append(longer.List().NewElement())
			m.Set(f, longer)
			visit(name + " longer")
			if had {
				m.Set(f, shorter)
				visit(name + " shorter")
			}
			m.Set(f, kept)
		case f.Message() != nil && had:
			eachChange(before.Message(), name, visit)
			m.Clear(f)
			visit(name + " left out")
			back()
		case f.Message() != nil:
			m.Set(f, m.NewField(f))
			visit(name + " set")
			back()
		default:
			m.Set(f, another(f, before))
			visit(name)
			back()
		}
	}
	m.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	visit(path + " with an unknown field")
	m.SetUnknown(nil)
}

func another(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(v.Enum() + 1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + 1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(v.Uint() + 1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(v.Float()) + 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(v.Float() + 1)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.String() + "x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(append([]byte("x"), v.Bytes()...))
	}
	panic("digestOf has a kind that this test does not: " + f.Kind().String())
}

// The digest is stored with releases, so that it must stay what it is.
func TestDigestStaysWhatItIs(t *testing.T) {
	round := &conclavev1.Round{Run: "r", Number: 3, Question: &conclavev1.Round_Vote{Vote: &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{Vote: conclavev1.TeacherSpec_VOTE_RELATIVE, Classes: 2, LearningRate: 0.5,
			Seed: 1 << 63},
		Queries:      &conclavev1.Tensor{Shape: []uint32{2, 1}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		QueryClasses: []uint32{0, 1}, AnswerClasses: 2,
	}}}
	const want = "b819e55f4c47b4c0dac07f0896296817770b2aba5443787cdfe41b826f04e42e"
	digest := digestOf(round)
	if got := hex.EncodeToString(digest[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// So must that of a step of a discriminator, of which a run may have thousands.
func TestDigestOfADiscriminatorStaysWhatItIs(t *testing.T) {
	round := roundtest.DiscriminatorRound("r", 3, 2, func(q *conclavev1.DiscriminatorSum) {
		q.Discriminator.Pieces, q.Discriminator.Fourier, q.Discriminator.Seed = true, 200, 1<<63
		q.Mean = &conclavev1.Tensor{Shape: []uint32{2, 1}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}}
	})
	const want = "249786c67d967f4b4b7d9dac31aea21eb225730b24748f2609aa22967eb60ace"
	digest := digestOf(round)
	if got := hex.EncodeToString(digest[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkDigest(b *testing.B) {
	round := roundtest.VoteRound("r", 3, 10_000)
	for b.Loop() {
		digestOf(round)
	}
}
