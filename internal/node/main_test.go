package node

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallSchema has five features and two classes.
const smallSchema = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: b, kind: binary}
  - {name: c, kind: categorical, categories: [p, q, r]}
  - {name: y, kind: categorical, categories: [no, yes]}
label: y
`

// smallFeatures is the width of an encoded record of smallSchema.
const smallFeatures = 5

func mustSchema(t testing.TB, text string) *partition.Schema {
	t.Helper()
	s, err := partition.ParseSchema([]byte(text))
	testkit.Must(t, err)
	return s
}

// smallTable draws records of smallSchema; those of class yes have larger x.
func smallTable(t testing.TB, rows int, seed uint64) *partition.Table {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	table := partition.NewTable(mustSchema(t, smallSchema))
	for range rows {
		y := float64(rng.IntN(2))
		testkit.Must(t,
			table.Append([]float64{(rng.Float64() + y) / 2, float64(rng.IntN(2)), float64(rng.IntN(3)), y}, ""))
	}
	return table
}

// smallConfig is a configuration that is valid with a state folder of its own.
func smallConfig(t testing.TB, teachers int) Config {
	c := DefaultConfig()
	c.Aggregator, c.Dataset, c.Site = "127.0.0.1:1", "d", "north"
	c.Schema, c.Data, c.Teachers = "schema.yaml", "table.csv", teachers
	c.State = filepath.Join(t.TempDir(), "state")
	c.TLS = certs.Files{CA: "ca.crt", Cert: "node.crt", Key: "node.key"}
	return c
}

// start makes a node from a table as a process that starts does, as the
// aggregator has welcomed it.
func start(t testing.TB, c Config, table *partition.Table) *Node {
	t.Helper()
	n := unknown(t, c, table)
	testkit.Must(t, n.keepManifest())
	return n
}

// unknown makes a node that no aggregator has welcomed yet.
func unknown(t testing.TB, c Config, table *partition.Table) *Node {
	t.Helper()
	site, err := NewSite(c, table)
	testkit.Must(t, err)
	n, err := site.Node(c.Aggregator, zap.NewNop())
	testkit.Must(t, err)
	return n
}

// smallNode is a node of smallSchema with about 20 records for each teacher.
func smallNode(t testing.TB, teachers int) *Node {
	t.Helper()
	return start(t, smallConfig(t, teachers), smallTable(t, 20*teachers, 1))
}

func smallTeacher() *conclavev1.TeacherSpec {
	return &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE,
		Classes: 2, Steps: 5, Batch: 8, LearningRate: 0.1, WeightDecay: 0.1, Seed: 7,
		Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
	}
}

// generated draws records with their classes as a student would.
func generated(rows, features int, rng *rand.Rand) (*conclavev1.Tensor, []uint32) {
	x, classes := make([]float32, rows*features), make([]uint32, rows)
	for i := range x {
		x[i] = rng.Float32()
	}
	for i := range classes {
		classes[i] = uint32(i % 2)
	}
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), uint32(features)}, Data: nn.Bytes(x)}, classes
}

// voteRound is a round of 16 training records and 12 queries for smallSchema;
// rounds of other numbers hold other records.
func voteRound(run string, number uint64) *conclavev1.Round {
	rng := rand.New(rand.NewPCG(number, 99))
	training, trainingClasses := generated(16, smallFeatures, rng)
	queries, queryClasses := generated(12, smallFeatures, rng)
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Vote{Vote: &conclavev1.VoteQuestion{
		Teacher: smallTeacher(), Training: training, TrainingClasses: trainingClasses,
		Queries: queries, QueryClasses: queryClasses, AnswerClasses: 2,
	}}}
}

func countRound(run string, number uint64, classes uint32, scale uint64) *conclavev1.Round {
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_ClassCounts{ClassCounts: &conclavev1.ClassCounts{Classes: classes, Scale: scale}},
	}}}
}

// partsOf cuts a round into parts of the given size.
func partsOf(t testing.TB, r *conclavev1.Round, size int) []*conclavev1.RoundPart {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	testkit.Must(t, err)
	return cut(r, raw, size)
}

// cut makes the parts of a round from its bytes.
func cut(r *conclavev1.Round, raw []byte, size int) []*conclavev1.RoundPart {
	total := (len(raw) + size - 1) / size
	var parts []*conclavev1.RoundPart
	for i := range total {
		parts = append(parts, &conclavev1.RoundPart{
			Run: r.Run, Round: r.Number, Part: uint32(i), Parts: uint32(total), Data: raw[i*size : min((i+1)*size, len(raw))],
		})
	}
	return parts
}

// ask gives a node the messages of a round and returns its one reply.
func ask(t testing.TB, n *Node, r *conclavev1.Round) *conclavev1.WorkRequest {
	t.Helper()
	in, parts := newInbox(), assembly{}
	for _, p := range partsOf(t, r, 1<<20) {
		m := &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}}
		testkit.Must(t, n.dispatch(t.Context(), m, &parts, in))
	}
	todo, ok := in.take()
	if !ok {
		t.Fatal("the round did not arrive")
	}
	return n.reply(todo)
}

// votesOf asks a round of votes that must be answered and returns them packed.
func votesOf(t testing.TB, n *Node, r *conclavev1.Round) []byte {
	t.Helper()
	m := ask(t, n, r)
	if m.GetVotes() == nil {
		t.Fatalf("round %d was not answered: %v", r.Number, m.GetRefusal().GetReason())
	}
	return m.GetVotes().Packed
}

// unpack reads packed votes as the contract describes them: teacher by teacher,
// each row padded to a whole byte, the fewest of 1, 2, 4 and 8 bits, low bits
// first. It shares no code with pack.
func unpack(t testing.TB, packed []byte, teachers, queries, answerClasses int) []uint8 {
	t.Helper()
	bits := map[bool]int{true: 1}[answerClasses <= 2]
	for _, b := range []int{2, 4, 8} {
		if bits == 0 && answerClasses <= 1<<b {
			bits = b
		}
	}
	perRow := 0
	for perRow*8 < queries*bits {
		perRow++
	}
	if len(packed) != teachers*perRow {
		t.Fatalf("%d bytes of votes, want %d teachers x %d", len(packed), teachers, perRow)
	}
	var votes []uint8
	for i := range teachers {
		row := packed[i*perRow : (i+1)*perRow]
		bit := func(k int) uint8 { return row[k/8] >> (k % 8) & 1 }
		for q := range queries {
			v := uint8(0)
			for b := range bits {
				v |= bit(q*bits+b) << b
			}
			votes = append(votes, v)
		}
		for k := queries * bits; k < 8*perRow; k++ {
			if bit(k) != 0 {
				t.Fatalf("teacher %d: padding bit %d is set", i, k)
			}
		}
	}
	return votes
}

// mustEnsemble makes the untrained teachers that a question asks of a node.
func mustEnsemble(t testing.TB, n *Node, q *conclavev1.VoteQuestion) *nn.Ensemble {
	t.Helper()
	spec, err := n.checkTeacher(q.Teacher)
	testkit.Must(t, err)
	e, err := spec.ensemble()
	testkit.Must(t, err)
	return e
}

// freshState is what a node knows of a run before its first round.
func freshState(t testing.TB, n *Node, q *conclavev1.VoteQuestion) *runState {
	t.Helper()
	spec, err := n.checkTeacher(q.Teacher)
	testkit.Must(t, err)
	return &runState{spec: spec, ensemble: mustEnsemble(t, n, q)}
}

// exists tells whether a file of a node's state folder is there.
func exists(c Config, name string) bool {
	_, err := os.Stat(filepath.Join(c.State, name))
	return err == nil
}

func rowText(votes []uint8, teacher, queries int) string {
	return fmt.Sprint(votes[teacher*queries : (teacher+1)*queries])
}
