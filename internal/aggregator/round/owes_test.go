package round

import (
	"testing"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Others see that a node answered only when the minute of its answer is over: the time it takes depends on its
// records.
func TestWhenANodeAnsweredIsToldByTheMinute(t *testing.T) {
	d := NewDataset(coordinator.Dataset{Name: "d"}, 0)
	e := &Execution{}
	e.key = payload.Key{Run: "r"}
	d.register(e)
	n := peer.NewNode(nil)
	n.ID, n.Teachers = peer.ID{Site: "north", Name: "0"}, 1
	p := e.participants.of(n.ID)
	s := p.on(n)
	e.participants.ask(s)
	testkit.Same(t, "before its answer", 1, len(d.Unanswered(time.Now())))
	e.participants.count(p, s)
	testkit.Same(t, "in that minute", 1, len(d.Unanswered(s.done)))
	testkit.Same(t, "in the next one", 0, len(d.Unanswered(s.done.Add(time.Minute))))
}
