package teacher

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func mark(seq uint64, hash byte) *conclavev1.LedgerMark {
	return &conclavev1.LedgerMark{Seq: seq, Hash: bytes.Repeat([]byte{hash}, 32)}
}

// What a node is told of the ledger, by a welcome and by rounds, it says when it comes back,
// as the same process or as another one.
func TestANodeRemembersTheLedger(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	table := smallTable(t, 40, 1)
	stop, _ := run(t, start(t, c, table))
	f.setLedger(mark(3, 3))
	said := func(want *conclavev1.LedgerMark) *join {
		t.Helper()
		j := f.next()
		if got := j.hello.GetLedger(); !proto.Equal(got, want) {
			t.Fatalf("the hello says %v, want %v", got, want)
		}
		return j
	}
	j := said(nil)
	ask := func(number uint64, m *conclavev1.LedgerMark) {
		t.Helper()
		r := voteRound("r", number)
		for i, p := range partsOf(t, r, 300) {
			response := &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}}
			if i == 0 {
				response.Terms = &conclavev1.RoundTerms{Ledger: m}
			}
			j.send(response)
		}
		if m := j.reply(); m.GetVotes() == nil {
			t.Fatalf("round %d was answered with %v", number, m)
		}
	}
	ask(0, mark(5, 5))
	ask(1, mark(4, 4)) // of rounds that are asked side by side one may be behind
	ask(2, nil)        // from an aggregator that tells nothing
	ask(3, &conclavev1.LedgerMark{Seq: 9, Hash: []byte("short")})
	j.leave <- status.Error(codes.Unavailable, "gone")
	f.setLedger(mark(5, 5))
	j = said(mark(5, 5))
	ask(4, mark(6, 6))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	site, err := NewSite(c, table)
	must(t, err)
	if got := site.Hello().GetLedger(); !proto.Equal(got, mark(6, 6)) {
		t.Errorf("the site says %v", got)
	}
	f.setLedger(nil) // an aggregator of before
	stop, _ = run(t, start(t, c, table))
	said(mark(6, 6)).votes(voteRound("r", 5))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A node that is killed forgets what it was told within a second, and no more.
func TestMarksAreWrittenEverySecond(t *testing.T) {
	m, err := loadMark(markPath(t.TempDir()))
	must(t, err)
	now := time.Unix(1e9, 0)
	stored := func() uint64 {
		t.Helper()
		again, err := loadMark(m.path)
		must(t, err)
		return again.head.Seq
	}
	for i, want := range []uint64{1, 1, 1, 4, 4, 4, 7} {
		if m.told(mark(uint64(i)+1, 1), now) {
			must(t, m.write(now))
		}
		if got := stored(); got != want {
			t.Errorf("after %d entries %d is stored, want %d", i+1, got, want)
		}
		now = now.Add(markEvery / 3)
		if i%3 == 2 {
			now = now.Add(time.Millisecond)
		}
	}
	if m.told(mark(7, 1), now.Add(time.Hour)) {
		t.Error("what is stored is to be stored again")
	}
}

// A node does not work for an aggregator whose ledger is not the one that it answered under.
func TestANodeLeavesALedgerThatWentBack(t *testing.T) {
	for name, last := range map[string]*conclavev1.LedgerMark{"shorter": mark(4, 4), "another": mark(5, 6)} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAggregator(t)
			c := f.config(2)
			f.setLedger(mark(5, 5))
			stop, _ := run(t, start(t, c, smallTable(t, 40, 1)))
			f.next().votes(voteRound("r", 0))
			must(t, stop())
			f.setLedger(last)
			ended := make(chan error, 1)
			n := start(t, c, smallTable(t, 40, 1))
			go func() { ended <- n.Run(t.Context()) }()
			f.next()
			select {
			case err := <-ended:
				if !errors.Is(err, errWentBack) || !strings.Contains(err.Error(), "entry 5") || !strings.Contains(err.Error(), "restore a newer one") {
					t.Errorf("Run ended with %v", err)
				}
			case <-time.After(patience):
				t.Fatal("the node goes on")
			}
		})
	}
}

// A file that names nothing is not taken for none.
func TestADamagedMarkIsRefused(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	must(t, os.MkdirAll(c.State, 0o700))
	for _, text := range []string{"", "{}\n", `{"seq":5,"hash":"x"}`} {
		must(t, os.WriteFile(markPath(c.State), []byte(text), 0o600))
		if _, err := NewSite(c, smallTable(t, 40, 1)); err == nil || !strings.Contains(err.Error(), "dataset-ledger.head") || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
