package aggregator

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func part(index, total uint32, data string) *conclavev1.RoundPart {
	return &conclavev1.RoundPart{Run: "r", Round: 3, Part: index, Parts: total, Data: []byte(data)}
}

func TestAssemblyJoinsPartsInOrder(t *testing.T) {
	round := voteRound("r", 3, 5)
	raw, err := proto.Marshal(round)
	testkit.Must(t, err)
	var a assembly
	for i, text := range []string{string(raw[:40]), string(raw[40:41]), string(raw[41:])} {
		if a.complete() {
			t.Fatalf("complete before part %d", i)
		}
		testkit.Must(t, a.add(part(uint32(i), 3, text)))
	}
	if !a.complete() {
		t.Fatal("not complete after the last part")
	}
	p, err := a.payload()
	testkit.Must(t, err)
	if p.key != (roundKey{"r", 3}) || !proto.Equal(p.round, round) {
		t.Fatalf("got %v %v", p.key, p.round)
	}
	messages, err := p.encode(7)
	testkit.Must(t, err)
	for i, m := range messages {
		var got conclavev1.WorkResponse
		testkit.Must(t, proto.Unmarshal(m, &got))
		if !proto.Equal(got.GetPart(), p.parts[i]) {
			t.Errorf("part %d arrives as %v", i, got.GetPart())
		}
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
		"starts late":     {[]*conclavev1.RoundPart{part(1, 2, "x")}, "part 0 was due"},
		"repeated":        {[]*conclavev1.RoundPart{part(0, 2, "x"), part(0, 2, "x")}, "part 1 was due"},
		"skipped":         {[]*conclavev1.RoundPart{part(0, 3, "x"), part(2, 3, "x")}, "part 1 was due"},
		"another total":   {[]*conclavev1.RoundPart{part(0, 2, "x"), part(1, 3, "x")}, "different rounds"},
		"another run":     {[]*conclavev1.RoundPart{part(0, 2, "x"), foreignRun}, "different rounds"},
		"another round":   {[]*conclavev1.RoundPart{part(0, 2, "x"), foreignRound}, "different rounds"},
		"after the last":  {[]*conclavev1.RoundPart{part(0, 1, "x"), part(1, 1, "x")}, "after the last"},
		"empty":           {[]*conclavev1.RoundPart{part(0, 1, "")}, "0 bytes"},
		"more than 1 MiB": {[]*conclavev1.RoundPart{huge}, "1048577 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var a assembly
			var err error
			for _, p := range c.parts {
				if err = a.add(p); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
