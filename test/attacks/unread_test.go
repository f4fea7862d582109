package attacks

import (
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A node reads nothing, learns of the rounds from another node of its site, and answers them. An answer to a round
// that it was not sent does not count, and is not kept in memory.
func TestAnswersToUnreadRounds(t *testing.T) {
	w := attacked(t)
	q := votes()
	small := q.round
	q.round = func(run string, number uint64) *conclavev1.Round { // some 900 KB
		r := small(run, number)
		r.Params = make([]byte, 900<<10)
		return r
	}
	s := w.scene(t, q)
	deaf := w.deaf(t, s)
	unasked := func() float64 { return w.rejections(t)["unasked"] }
	const rounds = 16
	before, idle := unasked(), int64(0)
	for number := range uint64(rounds) {
		over := s.ask(t, number)
		a := s.honest.next(t)
		had := unasked()
		deaf.write(message(1, 0, encoded(t, good(a))))
		if number >= 2 { // the transport has accepted one round, and one is being sent
			testkit.Eventually(t, "the answer to be rejected", func() bool { return unasked() > had })
		}
		s.honest.say(s.q.honest(a))
		release := s.answer(t, over)
		if got := w.countsOf(s.spec.GetName()); number >= 2 &&
			(release.GetTeachers() != honestTeachers || !slices.Equal(got, s.q.counts)) {
			t.Errorf("round %d: %d teachers, with %v, want %v", number, release.GetTeachers(), got, s.q.counts)
		}
		if number == 4 {
			idle, _ = settled()
		}
	}
	// One of the first two answers was faster than its round.
	if n := unasked() - before; n < rounds-2 || n > rounds {
		t.Errorf("%v answers were rejected, want %d to %d", n, rounds-2, rounds)
	}
	if now, _ := settled(); now-idle > 5<<20 {
		t.Errorf("%d rounds later the heap has %.1f MB more", rounds-5, float64(now-idle)/1e6)
	}
	if n := len(deaf.got(frameData)); n != 0 {
		t.Errorf("%d frames of data into a window of 0", n)
	}
	deaf.Close()
	w.connected(t, s, 1)
}
