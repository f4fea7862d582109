package node

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/classcounts"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/strokes"
	"github.com/conclave-dp/conclave/internal/teachers"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Each kind of question has its own name. Rows of a table cannot answer strokes, which are of images.
func TestRoundsNameTheirKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range roundsOfAllKinds() {
		kind := r.GetKind()
		if _, known := kinds.All()[kind]; !known || seen[kind] {
			t.Errorf("%q is not known, or names two kinds of rounds", kind)
		}
		seen[kind] = true
	}
	for kind := range kinds.All() {
		if !seen[kind] && kind != strokes.Sum.Name {
			t.Errorf("no round of kind %q", kind)
		}
	}
}

// Kinds are independent: a node answers a question the same whatever else it was asked.
func TestKindsDoNotDisturbEachOther(t *testing.T) {
	n := smallNode(t, 3)
	questiontest.SampleByRecords(n.site)
	first := map[string]*conclavev1.WorkRequest{}
	for _, r := range roundsOfAllKinds() {
		m := ask(t, n, r)
		if m.GetRefusal() != nil {
			t.Fatalf("%s: %v", r.GetKind(), m)
		}
		first[r.GetKind()] = m
		for _, other := range roundsOfAllKinds() {
			want := first[other.GetKind()]
			if again := ask(t, n, other); want != nil && !proto.Equal(again, want) {
				t.Errorf("%s after %s: %v, first it was %v", other.GetKind(), r.GetKind(), again, want)
			}
		}
	}
}

// A node refuses unknown questions.
func TestUnknownQuestionsAreRefused(t *testing.T) {
	n := smallNode(t, 2)
	for name, r := range map[string]*conclavev1.Round{
		"no question":  {Run: "r"},
		"another kind": {Run: "r", Kind: "medians", Params: []byte{1}},
		"new fields": {Run: "r", Kind: classcounts.Kind.Name,
			Params: protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 1)},
	} {
		if got := ask(t, n, r).GetRefusal().GetReason(); !strings.Contains(got, "has a kind that is unknown to this "+
			"node") {
			t.Errorf("%s: refused with %q", name, got)
		}
	}
	n.kinds = question.NewRegistry()
	if got := ask(t, n, voteRound("r", 1)).GetRefusal().GetReason(); got != question.ErrUnknown.Error() {
		t.Errorf("a kind that is not registered: refused with %q", got)
	}
}

// wrongRounds has rounds of all kinds, each with one invalid field.
func wrongRounds() []*conclavev1.Round {
	rounds := roundsOfAllKinds()
	questiontest.Change(rounds[0], func(q *conclavev1.VoteQuestion) { q.Teacher.WeightDecay = 11 })
	questiontest.Change(rounds[1], func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 6 })
	questiontest.Change(rounds[2], func(q *conclavev1.GradientSum) { q.Clip = 1e-320 })
	questiontest.Change(rounds[3], func(q *conclavev1.ClassCounts) { q.Classes = 3 })
	questiontest.Change(rounds[4], func(q *conclavev1.DiscriminatorSum) { q.Rate = 2 })
	questiontest.Change(rounds[5], func(q *conclavev1.ScoreSum) { q.Bound = 1 })
	questiontest.Change(rounds[6], func(q *conclavev1.EmbeddingSum) { q.Entries++ })
	questiontest.Change(rounds[7], func(q *conclavev1.LogisticSum) { q.Bound = 0 })
	questiontest.Change(rounds[8], func(q *conclavev1.LabelSum) { q.Clip = 0 })
	questiontest.Change(rounds[9], func(q *conclavev1.MarginalsQuestion) { q.Weights[0] = 0 })
	questiontest.Change(rounds[10], func(q *conclavev1.MarginalsQuestion) { q.Columns[0].Column = 99 })
	return rounds
}

// A refusal names its round and depends only on the question, because otherwise it would reveal records. A site gives
// the same refusal before there is a node.
func TestRefusalsDoNotDependOnTheRecords(t *testing.T) {
	a := start(t, smallConfig(t, 2), questiontest.SmallTable(t, 40, 1))
	b := start(t, smallConfig(t, 2), questiontest.SmallTable(t, 70, 2))
	c := smallConfig(t, 2)
	site, err := NewSite(c, questiontest.SmallTable(t, 50, 3), kinds.All())
	testkit.Must(t, err)
	for _, r := range wrongRounds() {
		x, y := ask(t, a, r), ask(t, b, r)
		if x.GetRefusal().GetRun() != r.Run || x.GetRefusal().GetRound() != r.Number || !proto.Equal(x, y) {
			t.Errorf("%s: two nodes refuse with %v and %v", r.GetKind(), x, y)
		}
		if err := site.CheckRound(r); err == nil || err.Error() != x.GetRefusal().GetReason() {
			t.Errorf("%s: checked as %v, refused with %v", r.GetKind(), err, x)
		}
	}
	for _, r := range roundsOfAllKinds() {
		testkit.Must(t, site.CheckRound(r))
	}
	if exists(c, "partition.key") {
		t.Error("checking left a key")
	}
}

// An answer has only its run, its round and what was requested, and always has the same length, because encryption
// does not hide lengths.
func TestAnswersHaveNothingElse(t *testing.T) {
	fields := func(m proto.Message) map[string]bool {
		out := map[string]bool{}
		m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			out[string(f.Name())] = true
			return true
		})
		return out
	}
	n := start(t, smallConfig(t, 2), questiontest.SmallTable(t, 60, 1))
	want := map[string]bool{"run": true, "round": true, "values": true}
	r, size := discriminatorRound("r", 4, nil), 0
	for name, sample := range map[string][]int{"nobody": nil, "one": {3}, "all": questiontest.Rows(60)} {
		n.site.Sample = func(gnmax.Rate) ([]int, error) { return sample, nil }
		m := ask(t, n, r)
		if got := proto.Size(m); size != 0 && got != size {
			t.Errorf("%s: an answer of %d bytes, another one has %d", name, got, size)
		} else {
			size = got
		}
		if got := fields(m.GetSum()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the sum has %v", name, got)
		}
		if got := fields(m); len(got) != 1 || !got["sum"] || len(m.ProtoReflect().GetUnknown()) != 0 ||
			len(m.GetSum().ProtoReflect().GetUnknown()) != 0 {
			t.Errorf("%s: the answer has %v", name, got)
		}
		if m.GetSum().Run != "r" || m.GetSum().Round != 4 {
			t.Errorf("%s: the sum of round %d of run %q", name, m.GetSum().Round, m.GetSum().Run)
		}
	}
	m := ask(t, n, voteRound("v", 3)).GetVotes()
	if m == nil || m.Run != "v" || m.Round != 3 || m.Teachers != 2 || m.Queries != 12 {
		t.Errorf("answered with %v", m)
	}
}

// The size of an answer is bounded, however many teachers the node has, before any of it is computed.
func TestVotesTooLargeForAMessageAreRefused(t *testing.T) {
	p := question.NewPublic(smallNode(t, 2).site.Schema, maxTeachers, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	q := teacherstest.Votes(1)
	q.Queries, q.QueryClasses = teacherstest.Generated(600, questiontest.SmallFeatures, rng)
	if _, err := check(kinds.All(), p, asked("r", 1, teachers.Votes, q), false); err == nil ||
		!strings.Contains(err.Error(), "fewer queries") {
		t.Errorf("%d teachers on 600 queries: %v", maxTeachers, err)
	}
	q.Queries, q.QueryClasses = teacherstest.Generated(500, questiontest.SmallFeatures, rng)
	if _, err := check(kinds.All(), p, asked("r", 1, teachers.Votes, q), false); err != nil {
		t.Errorf("%d teachers on 500 queries: %v", maxTeachers, err)
	}
	votes := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
		Run: strings.Repeat("r", 128), Round: math.MaxUint64, Teachers: maxTeachers, Queries: math.MaxUint32,
		Packed: make([]byte, maxAnswerBytes),
	}}}
	if size := proto.Size(votes); size > 4<<20 {
		t.Errorf("the largest answer takes %d bytes, over gRPC's 4 MiB", size)
	}
}

// A node restarted on its state folder gives the same answer as before. Without the folder nothing leaves, not even
// its path.
func TestAnswersAreKept(t *testing.T) {
	table := questiontest.SmallTable(t, 80, 1)
	c := smallConfig(t, 4)
	n := start(t, c, table)
	want := votesOf(t, n, voteRound("r", 1))
	if again := votesOf(t, start(t, c, table), voteRound("r", 1)); !bytes.Equal(again, want) {
		t.Errorf("after a start votes %x, before %x", again, want)
	}
	away := c.State + "-away"
	testkit.Must(t, os.Rename(c.State, away))
	if got := ask(t, n, voteRound("r", 2)).GetRefusal().GetReason(); got != question.ErrState.Error() {
		t.Errorf("without a state folder: refused with %q, want %q", got, question.ErrState)
	}
	testkit.Must(t, os.Rename(away, c.State))
	votesOf(t, n, voteRound("r", 2))
}

func TestStateIsForTheOwnerOnly(t *testing.T) {
	n := smallNode(t, 2)
	votesOf(t, n, voteRound("r", 1))
	entries, err := os.ReadDir(n.cfg.State)
	testkit.Must(t, err)
	if len(entries) != 3 {
		t.Errorf("the state folder holds %v, want the key, the manifest and one run", entries)
	}
	for _, e := range entries {
		info, err := e.Info()
		testkit.Must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode().Perm())
		}
	}
}

// Different nodes draw different random numbers.
func TestNodesHaveSeedsOfTheirOwn(t *testing.T) {
	var seeds []uint64
	for _, name := range []string{"north 0", "north 1", "south 0"} {
		c := smallConfig(t, 2)
		c.Site, c.Node, _ = strings.Cut(name, " ")
		seed := start(t, c, questiontest.SmallTable(t, 40, 1)).site.Seed
		if seed != question.Seed(c.Site, c.Node) || slices.Contains(seeds, seed) {
			t.Errorf("the teachers of %s draw from seed %d, others from %v", name, seed, seeds)
		}
		seeds = append(seeds, seed)
	}
}
