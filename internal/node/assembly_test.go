package node

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestPartsMakeTheRound(t *testing.T) {
	var a assembly // one for all rounds, as on a stream
	for number, size := range []int{1, 7, 100, 1 << 20} {
		r := voteRound("r", uint64(number))
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
		testkit.Must(t, err)
		parts := partsOf(t, r, size)
		for i, p := range parts {
			q, err := a.add(p)
			testkit.Must(t, err)
			if last := i == len(parts)-1; (q != nil) != last {
				t.Fatalf("part %d of %d gave a question: %v", i, len(parts), q != nil)
			}
			if q == nil {
				continue
			}
			sum := sha256.Sum256(raw)
			if !proto.Equal(q.round, r) || q.digest() != hex.EncodeToString(sum[:]) {
				t.Errorf("parts of %d bytes make another round", size)
			}
		}
	}
}

func TestWrongPartsAreRefused(t *testing.T) {
	good := func() []*conclavev1.RoundPart { return partsOf(t, voteRound("r", 3), 200) }
	for name, c := range map[string]struct {
		want   string
		change func([]*conclavev1.RoundPart) []*conclavev1.RoundPart
	}{
		"first missing": {"out of order", func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return p[1:] }},
		"one missing": {"out of order",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return append(p[:1], p[2:]...) }},
		"one twice": {"out of order",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return append(p[:2], p[1:]...) }},
		"other run": {"out of order",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { p[1].Run = "s"; return p }},
		"other round": {"out of order",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { p[1].Round = 4; return p }},
		"other total": {"out of order",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { p[1].Parts++; return p }},
		"no parts": {"out of order",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { p[0].Parts = 0; return p[:1] }},
		"empty part": {"is empty",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { p[1].Data = nil; return p }},
		"nonsense": {"cannot be parsed", func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart {
			p[0].Data, p[0].Parts = []byte{0xff}, 1
			return p[:1]
		}},
		"another inside": {"contain another round",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return renamed(p, "s", 3) }},
		"number inside": {"contain another round",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return renamed(p, "r", 4) }},
		"too large": {"more than", func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart {
			p[0].Data = make([]byte, maxRoundBytes)
			return p
		}},
		"no name": {"name", func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return renamed(p, "", 3) }},
		"a path": {"name",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return renamed(p, "../../r", 3) }},
		"hidden file": {"name", func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return renamed(p, "..", 3) }},
		"line end": {"name",
			func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart { return renamed(p, "r\n", 3) }},
		"very long name": {"name", func(p []*conclavev1.RoundPart) []*conclavev1.RoundPart {
			return renamed(p, strings.Repeat("r", 1<<20), 3)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var a assembly
			refusals := 0
			for _, p := range c.change(good()) {
				q, err := a.add(p)
				if q != nil {
					t.Fatal("the round was taken")
				}
				if err == nil {
					continue
				}
				refusals++
				if refusals == 1 && !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %q, want %q in it", err, c.want)
				}
				if len(err.Error()) > 500 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			}
			if refusals == 0 || refusals > 2 {
				t.Errorf("%d refusals of one wrong round", refusals)
			}
			for i, p := range good() { // the next round is not affected
				if q, err := a.add(p); err != nil || (q != nil) != (i == len(good())-1) {
					t.Fatalf("after the wrong round, part %d: %v", i, err)
				}
			}
		})
	}
}

func renamed(parts []*conclavev1.RoundPart, run string, round uint64) []*conclavev1.RoundPart {
	for _, p := range parts {
		p.Run, p.Round = run, round
	}
	return parts
}
