package payload

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// digestOf is the hash of what a message says. It does not depend on how the
// message was serialized: Protocol Buffers promise no canonical form, so that
// another release of a client may send the same question in other bytes. It is
// stored with a release for the life of a run; changing it makes every released
// round another question.
//
// Each field that is set counts with its number and its value, in the order of
// the numbers; so do the bytes of fields that this aggregator does not know,
// because the nodes may.
func digestOf(m proto.Message) (sum [sha256.Size]byte) {
	d := digester{Hash: sha256.New(), pending: make([]byte, 0, maxPending)}
	d.message(m.ProtoReflect())
	d.flush()
	d.Sum(sum[:0])
	return sum
}

// maxPending is how much a digester hashes at once, a few blocks.
const maxPending = 1024

// digester collects numbers before it hashes them: there is one for each feature of
// each record.
type digester struct {
	hash.Hash
	pending []byte
}

func (d *digester) flush() {
	_, _ = d.Write(d.pending)
	d.pending = d.pending[:0]
}

// message writes fields, a zero, which is no field's number, and what is unknown.
func (d *digester) message(m protoreflect.Message) {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, f)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number()) - int(b.Number()) })
	for _, f := range fields {
		d.number(uint64(f.Number()))
		v := m.Get(f)
		if !f.IsList() {
			d.value(v)
			continue
		}
		d.number(uint64(v.List().Len()))
		for i := range v.List().Len() {
			d.value(v.List().Get(i))
		}
	}
	d.number(0)
	d.bytes(m.GetUnknown())
}

// value writes a value of any kind that a round has. There are no maps in it.
func (d *digester) value(v protoreflect.Value) {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		d.message(x)
	case []byte:
		d.bytes(x)
	case string:
		d.bytes([]byte(x))
	case bool:
		n := uint64(0)
		if x {
			n = 1
		}
		d.number(n)
	case protoreflect.EnumNumber:
		d.number(uint64(x))
	case int32:
		d.number(uint64(x))
	case int64:
		d.number(uint64(x))
	case uint32:
		d.number(uint64(x))
	case uint64:
		d.number(x)
	case float32:
		d.number(uint64(math.Float32bits(x)))
	case float64:
		d.number(math.Float64bits(x))
	}
}

func (d *digester) number(n uint64) {
	if len(d.pending)+8 > maxPending {
		d.flush()
	}
	d.pending = binary.LittleEndian.AppendUint64(d.pending, n)
}

func (d *digester) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.flush()
	_, _ = d.Write(b)
}
