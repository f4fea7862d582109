package attacks

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Rounds that wait for a missing quorum stay in memory, and count until they end.
func TestRoundsThatWaitAreBounded(t *testing.T) {
	w := apart(t)
	s := w.scene(t, votes())
	idle, _ := settled()
	const each, size = 1 << 20, 40 << 20
	taken := 0
	for i := range 6 {
		spec := specOf(s.spec.GetDataset())
		spec.Name, spec.Epsilon, spec.Teachers, spec.Quorum = fmt.Sprint("wait-", i), 0.9, 1000, 1
		_, err := s.student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		testkit.Must(t, err)
		r := s.q.round(spec.Name, 0)
		r.Params = make([]byte, size)
		raw := encoded(t, r)
		stream, err := s.student.Ask(t.Context())
		testkit.Must(t, err)
		parts := (len(raw) + each - 1) / each
		for p := range parts {
			// A refused stream takes no more parts; reading it returns the reason.
			_ = stream.Send(&conclavev1.AskRequest{Part: &conclavev1.RoundPart{Run: spec.Name, Round: 0,
				Part: uint32(p), Parts: uint32(parts), Data: raw[p*each : min(len(raw), (p+1)*each)]}})
		}
		if _, err = stream.Recv(); err == nil { // the progress
			taken++
		} else if status.Code(err) != codes.Unavailable {
			t.Errorf("refused with %v", err)
		}
	}
	if taken != peer.MostRoom/size {
		t.Errorf("%d rounds of %d MiB wait, want %d", taken, size>>20, peer.MostRoom/size)
	}
	if now, _ := settled(); now-idle > 2*peer.MostRoom {
		t.Errorf("they take %d MiB", (now-idle)>>20)
	}
}

// unread makes a student ask for answers on many streams of several connections without reading them, until some
// streams are refused. It returns the peak memory of the others, above idle.
func unread(t *testing.T, w *world, idle int64, connections, streams int, ask func(stream uint32) []byte) (held int64) {
	t.Helper()
	var clients []*h2
	for range connections {
		c := w.h2(t, certs.RoleStudent, "lab", 0, 4, 0, 0, 0, 0) // windows of streams are 0
		for j := range streams {
			c.write(ask(uint32(2*j + 1)))
		}
		clients = append(clients, c)
	}
	testkit.Eventually(t, "answers that are refused", func() bool {
		now, _ := heap()
		held = max(held, now-idle)
		refused := 0
		for _, c := range clients { // the streams of any of them may come first
			for _, f := range c.got(frameHeaders) {
				if f.flags&flagEndStream != 0 { // trailers need no window
					refused++
				}
			}
		}
		return refused > streams/4
	})
	now, _ := settled()
	return max(held, now-idle)
}

// A repeated release that the student does not read takes room of the student.
func TestUnreadReleasesAreBounded(t *testing.T) {
	w := apart(t)
	s := w.scene(t, votes())
	const entries, each = 1 << 20, 1 << 17
	r := sumRound(s.spec.GetName(), 0, paysEmbedding, "embedding", &conclavev1.Vector{Entries: entries, Bound: 1 << 10})
	over := make(chan error, 1)
	go func() { _, err := ask(t.Context(), s.student, r); over <- err }()
	a := s.honest.next(t)
	values := make([]int64, each)
	for i := range entries / each {
		s.honest.say(&conclavev1.WorkRequest{Attempt: a.attempt, Message: &conclavev1.WorkRequest_Sum{
			Sum: &conclavev1.Sum{Run: a.round.GetRun(), Values: values, Part: uint32(i), Parts: entries / each}}})
	}
	if err := testkit.Receive(t, over); !errors.Is(err, io.EOF) { // it comes in parts
		t.Fatal(err)
	}
	raw := encoded(t, &conclavev1.AskRequest{Part: &conclavev1.RoundPart{Run: r.Run, Parts: 1, Data: encoded(t, r)}})
	idle, _ := settled()
	held := unread(t, w, idle, 1, 120, func(stream uint32) []byte {
		return append(call(stream, askMethod), message(stream, 0, raw)...)
	})
	t.Logf("at most %d MiB are held", held>>20)
	if held > 3*peer.MostRoom {
		t.Errorf("unread answers take %d MiB", held>>20)
	}
}

// The ledger is read in pages. Each takes room until the student has read it.
func TestUnreadLedgersAreBounded(t *testing.T) {
	w := apart(t)
	s := w.student(t)
	spec := specOf(w.dataset(false))
	spec.Epsilon, spec.Plan = 0.01, slices.Repeat(spec.Plan[paysVotes:paysVotes+1], 64)
	for i := range 60 { // entries of some 10 KiB
		spec.Name = fmt.Sprint("big-", i)
		_, err := s.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		testkit.Must(t, err)
	}
	raw := encoded(t, &conclavev1.ReadLedgerRequest{Run: spec.Name})
	whole := append([]byte{0, 0, 0, 0, byte(len(raw))}, raw...)
	ask := func(stream uint32) []byte {
		return append(call(stream, "/conclave.v1.StudentService/ReadLedger"),
			rawFrame(frameData, flagEndStream, stream, whole)...)
	}
	idle, _ := settled()
	const streams = 64
	held := unread(t, w, idle, peer.MostRoom>>20/streams+1, streams, ask) // one connection more than there is room for
	t.Logf("at most %d MiB are held", held>>20)
	if held > peer.MostRoom {
		t.Errorf("unread ledgers take %d MiB", held>>20)
	}
}
