package node

import (
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A node that answered something reconnects quickly, however many leaders follow each other. One that is repeatedly
// admitted and dismissed reconnects ever more slowly.
func TestWhoAnsweredIsBackSoon(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		f := newFakeAggregator(t)
		c := f.config(2)
		c.Reconnect = time.Minute
		stop, log := run(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
		for number := range uint64(6) {
			j := f.next()
			if asked {
				j.votes(voteRound("r", number))
			}
			j.leave <- status.Error(codes.Unavailable, "gone")
		}
		f.next()
		if err := stop(); err != nil {
			t.Error(err)
		}
		var pauses []time.Duration
		for _, l := range log.FilterMessageSnippet("not connected").All() {
			pauses = append(pauses, l.ContextMap()["pause"].(time.Duration))
		}
		// Half of a pause is random; no first pause is longer than this, and every sixth one is.
		const longestFirst = 100 * time.Millisecond
		if last := pauses[len(pauses)-1]; len(pauses) < 6 || (last > longestFirst) == asked {
			t.Errorf("asked %v: the pauses between connections are %v", asked, pauses)
		}
	}
}
