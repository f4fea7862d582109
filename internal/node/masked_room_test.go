package node

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/messages"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// What waits at a node of masked rounds counts as what else waits does, so that nothing of it is without bound.
func TestWhatWaitsOfMaskedRoundsIsCounted(t *testing.T) {
	const large = 1 << 20
	text := strings.Repeat("x", large)
	for name, waits := range map[string]task{
		"an attempt": {masked: &conclavev1.MaskedRound{Members: []*conclavev1.RunKey{{Signature: []byte(text)}}}},
		"a list": opening("r", 0, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Survivors{
			Survivors: &conclavev1.Survivors{Sites: []string{text}}}}, 1),
		"an agreement": opening("r", 0, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Agreement{
			Agreement: &conclavev1.Agreement{Tags: [][]byte{[]byte(text)}}}}, 1),
		"a permit": {permit: &conclavev1.Permit{Kind: text}},
		"a name":   {run: text + strings.Repeat("x", runspec.LongestName)},
	} {
		in := newInbox()
		var err error
		n := 0
		for ; err == nil && n <= maxWaiting; n++ {
			err = in.putBeside(waits)
		}
		if !errors.Is(err, errFlooded) || n > maxWaitingBytes/large+1 {
			t.Errorf("%s: %d were kept, %v", name, n, err)
		}
	}
}

// What comes with a run key and is no part of it, and what stands in place of the node's own, would be kept with the
// run: so much of each member of each run that a node has no memory for it.
func TestRunKeysAreKeptWithoutMore(t *testing.T) {
	h := newHostile(t, 3, 1, "east", "north", "south")
	more := func(k *conclavev1.RunKey) *conclavev1.RunKey {
		k = proto.Clone(k).(*conclavev1.RunKey)
		k.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType),
			make([]byte, 1<<20)))
		return k
	}
	signed := proto.Clone(h.keys[1]).(*conclavev1.RunKey)
	signed.Signature = make([]byte, 1<<20)
	for name, c := range map[string]struct {
		at   int
		key  *conclavev1.RunKey
		want string
	}{
		"another's with more":            {0, more(h.keys[0]), "unknown bytes"},
		"its own with more":              {1, more(h.keys[1]), "not have this node's key"},
		"its own, as signed by somebody": {1, signed, "not have this node's key"},
	} {
		keys := slices.Clone(h.keys)
		keys[c.at] = c.key
		h.refused(name, h.ask("north", embeddingRound("r", 0), h.terms, h.attempt(keys...)), c.want)
	}
	h.answers(embeddingRound("r", 0), h.attempt(h.keys...), "north")
}

// Lists that name more members than a masked run has are refused, and not kept.
func TestListsOfTooManyMembersAreRefused(t *testing.T) {
	h := newHostile(t, 2, 0, "east", "north")
	many := slices.Repeat([]*conclavev1.RunKey{{Site: "x"}}, masking.MaxMembers+1)
	r := embeddingRound("r", 0)
	masked := h.attempt(many...)
	h.refused("an attempt", h.ask("north", r, h.terms, masked), "a masked round of 201 members")
	h.refused("a list", h.survivors("north", "r", 0, slices.Repeat([]string{"x"}, 201)...), "of 201 members")
	h.refused("an agreement", h.agreement("north", "r", 0, make([][]byte, 201)...), "of 201 members")
	in, parts := newInbox(), assembly{}
	messages := messagesOf(t, r, h.terms, 1)
	messages[0].Masked = masked
	testkit.Must(t, h.nodes["north"].dispatch(messages[0], &parts, in))
	if todo, ok := in.take(); !ok || todo.bytes() != 0 || parts.masked != nil {
		t.Errorf("kept are %d bytes", todo.bytes())
	}
	h.answers(r, h.attempt(h.keys...), "north") // a round after it is as ever
}

// A message of more parts than any honest one has is refused before it is decoded, where two bytes become
// a hundred.
func TestCrowdedMessagesAreNotDecoded(t *testing.T) {
	decode := func(raw []byte) error {
		m := new(conclavev1.WorkResponse)
		return messages.NewCodec(mostMessages).Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m)
	}
	crowd := testkit.Value(proto.Marshal(&conclavev1.MaskedRound{
		Members: slices.Repeat([]*conclavev1.RunKey{{}}, mostMessages)}))
	raw := protowire.AppendBytes(protowire.AppendTag(nil, 10, protowire.BytesType), crowd)
	if err := decode(raw); !errors.Is(err, messages.ErrCrowded) {
		t.Errorf("%d members: %v", mostMessages, err)
	}
	// The largest page of a ledger.
	lines := slices.Repeat([][]byte{bytes.Repeat([]byte("x"), 250)}, 4<<20/253)
	page := testkit.Value(proto.Marshal(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Entries{
		Entries: &conclavev1.LedgerEntries{Lines: lines}}}))
	testkit.Must(t, decode(page))
	if err := decode([]byte{0xff}); err == nil {
		t.Error("what is no message is decoded")
	}
}

// An attempt waits for its opening as long as its run goes on, and a node has attempts of many runs. None of them
// keeps the question, which may be large.
func TestAttemptsDoNotKeepTheirQuestions(t *testing.T) {
	h := newHostile(t, 2, 1, "east", "north")
	messages := messagesOf(t, embeddingRound("r", 0), h.terms, 7)
	messages[0].Masked = h.attempt(h.keys...)
	in, parts := newInbox(), assembly{}
	for _, m := range messages {
		testkit.Must(t, h.nodes["north"].dispatch(m, &parts, in))
	}
	todo, _ := in.take()
	kept := weak.Make(todo.question.round)
	if m := h.nodes["north"].reply(todo); m.GetSum() == nil {
		t.Fatalf("the node says %v", m)
	}
	todo = task{}
	if runtime.GC(); kept.Value() != nil {
		t.Error("the question is kept")
	}
	runtime.KeepAlive(h)
}
