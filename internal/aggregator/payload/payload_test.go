package payload

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func part(index, total uint32, data string) *conclavev1.RoundPart {
	return &conclavev1.RoundPart{Run: "r", Round: 3, Part: index, Parts: total, Data: []byte(data)}
}

func TestAssemblyJoinsPartsInOrder(t *testing.T) {
	round := roundtest.VoteRound("r", 3, 5)
	raw, err := proto.Marshal(round)
	testkit.Must(t, err)
	var a Assembly
	for i, text := range []string{string(raw[:40]), string(raw[40:41]), string(raw[41:])} {
		if a.Complete() {
			t.Fatalf("complete before part %d", i)
		}
		testkit.Must(t, a.Add(part(uint32(i), 3, text)))
	}
	if !a.Complete() {
		t.Fatal("not complete after the last part")
	}
	p, err := a.Payload()
	testkit.Must(t, err)
	if p.Key != (Key{"r", 3}) || !proto.Equal(p.Round, round) {
		t.Fatalf("got %v %v", p.Key, p.Round)
	}
	messages, err := p.Encode(7, nil, nil)
	testkit.Must(t, err)
	for i, m := range messages {
		var got conclavev1.WorkResponse
		testkit.Must(t, proto.Unmarshal(m, &got))
		if !proto.Equal(got.GetPart(), p.parts[i]) {
			t.Errorf("part %d arrives as %v", i, got.GetPart())
		}
	}
}

// Unknown fields of a part are neither kept nor sent to nodes.
func TestUnknownFieldsOfPartsAreNotPassedOn(t *testing.T) {
	raw, err := proto.Marshal(roundtest.VoteRound("r", 3, 5))
	testkit.Must(t, err)
	sent := part(0, 1, string(raw))
	sent.ProtoReflect().SetUnknown([]byte{0xf8, 0xff, 0x3f, 1})
	var a Assembly
	testkit.Must(t, a.Add(sent))
	p, err := a.Payload()
	testkit.Must(t, err)
	if !proto.Equal(p.parts[0], part(0, 1, string(raw))) {
		t.Errorf("%v is kept", p.parts[0])
	}
}

func TestAssemblyRefuses(t *testing.T) {
	foreignRun, foreignRound := part(1, 2, "x"), part(1, 2, "x")
	foreignRun.Run, foreignRound.Round = "other", 4
	huge := part(0, 1, "")
	huge.Data = make([]byte, maxPartBytes+1)
	for name, c := range map[string]struct {
		parts []*conclavev1.RoundPart
		want  string
	}{
		"no part":         {[]*conclavev1.RoundPart{nil}, "no round part"},
		"no parts":        {[]*conclavev1.RoundPart{part(0, 0, "x")}, "0 parts"},
		"too many parts":  {[]*conclavev1.RoundPart{part(0, 65, "x")}, "65 parts"},
		"starts late":     {[]*conclavev1.RoundPart{part(1, 2, "x")}, "want part 0"},
		"repeated":        {[]*conclavev1.RoundPart{part(0, 2, "x"), part(0, 2, "x")}, "want part 1"},
		"skipped":         {[]*conclavev1.RoundPart{part(0, 3, "x"), part(2, 3, "x")}, "want part 1"},
		"another total":   {[]*conclavev1.RoundPart{part(0, 2, "x"), part(1, 3, "x")}, "different rounds"},
		"another run":     {[]*conclavev1.RoundPart{part(0, 2, "x"), foreignRun}, "different rounds"},
		"another round":   {[]*conclavev1.RoundPart{part(0, 2, "x"), foreignRound}, "different rounds"},
		"after the last":  {[]*conclavev1.RoundPart{part(0, 1, "x"), part(1, 1, "x")}, "after the last"},
		"empty":           {[]*conclavev1.RoundPart{part(0, 1, "")}, "0 bytes"},
		"more than 1 MiB": {[]*conclavev1.RoundPart{huge}, "1048577 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Assembly
			var err error
			for _, p := range c.parts {
				if err = a.Add(p); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// The run and number in the parts must equal those of the round inside.
func TestPayloadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"another run":    {testkit.Value(proto.Marshal(roundtest.VoteRound("x", 3, 1))), `round 3 of run "x"`},
		"another number": {testkit.Value(proto.Marshal(roundtest.VoteRound("r", 2, 1))), `round 2 of run "r"`},
		"not a message":  {[]byte{0xff}, "cannot be read"},
	} {
		var a Assembly
		testkit.Must(t, a.Add(part(0, 1, string(c.data))))
		if _, err := a.Payload(); fault.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
