package question_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// All records of a person are with one teacher. Units are found among the examples.
func TestRecordsOfAPersonAreWithOneTeacher(t *testing.T) {
	table := partition.NewTable(questiontest.Schema(t, `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: y, kind: binary}
label: y
`, questiontest.UnitColumn))
	for p := range 3 { // the one feature names the person
		for k := range p + 1 {
			questiontest.Append(t, table, fmt.Sprintf("p%d", p), []float64{float64(p) / 100, float64(k % 2)})
		}
	}
	s := questiontest.Site(t, table, 2)
	home, records := map[float32]int{}, 0
	for teacher, e := range s.Examples {
		for _, person := range slices.Concat(e.ByClass...) {
			if other, seen := home[person]; seen && other != teacher {
				t.Errorf("a person's records are with teachers %d and %d", other, teacher)
			}
			home[person] = teacher
			records++
		}
	}
	if records != 6 || len(home) != 3 {
		t.Errorf("the teachers hold %d records of %d people, want 6 of 3", records, len(home))
	}
	for _, unit := range s.Units {
		person := s.Record(unit[0])[0]
		for _, r := range unit {
			if x := s.Record(r); len(x) != 1 || x[0] != person || r.Teacher != home[person] {
				t.Errorf("the record at %+v is %v, of a unit of person %v with teacher %d", r, x, person, home[person])
			}
		}
		if len(unit) != int(100*person+0.5)+1 {
			t.Errorf("person %v has %d records", person, len(unit))
		}
	}
}

// Types keep what they remember apart, and nodes too.
func TestMemory(t *testing.T) {
	type one struct{ n int }
	type two struct{ n int }
	schema := questiontest.Schema(t, questiontest.SmallSchema, partition.UnitRecord)
	p, other := question.NewPublic(schema, 2, 1), question.NewPublic(schema, 2, 1)
	question.Memory[one](p).n = 5
	a, b, c := question.Memory[one](p).n, question.Memory[two](p).n, question.Memory[one](other).n
	if a != 5 || b != 0 || c != 0 {
		t.Errorf("remembered %d, %d and %d, want 5, 0 and 0", a, b, c)
	}
}

func TestRegistry(t *testing.T) {
	read := func(_ *question.Public, q *conclavev1.ClassCounts) (*question.Checked, error) {
		return &question.Checked{Shape: question.Shape{Sum: &question.Vector{Entries: int(q.Classes)}}}, nil
	}
	k := question.Kind{Name: "k", Read: question.Typed(read)}
	r := question.NewRegistry(k)
	if c, err := r.Read(&question.Public{}, "k", question.Marshal(&conclavev1.ClassCounts{Classes: 7})); err != nil ||
		c.Shape.Sum.Entries != 7 {
		t.Errorf("read %+v (%v)", c, err)
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 1)
	for name, params := range map[string][]byte{"k": unknown, "other": nil, "": nil} {
		if c, err := r.Read(&question.Public{}, name, params); !errors.Is(err, question.ErrUnknown) {
			t.Errorf("%q with %x: read %+v (%v)", name, params, c, err)
		}
	}
	if c, err := r.Read(&question.Public{}, "k", []byte{0xff}); err == nil ||
		!strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no message: read %+v (%v)", c, err)
	}
	sums := question.NewRegistry(question.Kind{Name: "sums", Read: k.Read, Streams: true}, k)
	params := question.Marshal(&conclavev1.ClassCounts{Classes: 7})
	if _, err := sums.Read(&question.Public{Streams: true}, "sums", params); err != nil {
		t.Errorf("a sum at a node that streams: %v", err)
	}
	for want, p := range map[string]*question.Public{
		"answers only sums of all records": {Streams: true},
		"answers no fits or selections":    {Streams: true, Divides: true},
	} {
		if _, err := sums.Read(p, "k", params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another question at a node that streams: %v; want %q", err, want)
		}
	}
	divides := question.NewRegistry(question.Kind{Name: "k", Read: k.Read, Divides: true})
	for _, divisible := range []bool{false, true} {
		_, err := divides.Read(&question.Public{Streams: true, Divides: divisible}, "k", params)
		if divisible != (err == nil) {
			t.Errorf("a node that streams, and divides its records: %v: %v", divisible, err)
		}
	}
	if _, err := sums.Read(&question.Public{Pushes: true}, "sums", params); err == nil ||
		!strings.Contains(err.Error(), "this node has its database count") {
		t.Errorf("a sum of records where a database counts: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("two kinds of one name were registered")
		}
	}()
	question.NewRegistry(k, k)
}
