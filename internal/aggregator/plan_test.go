package aggregator

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A round outside the plan is refused before a node sees it.
func TestRoundsKeepToThePlan(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, roundtest.Both(roundtest.Wholly,
		roundtest.Trains(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 5))))
	n := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3))
	_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 1, 3), nil)
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "the run's plan has 5", "3 of them are used and 3 more",
		spec.Name)
	if asked := len(n.rounds); asked != 1 {
		t.Errorf("the node saw %d rounds", asked)
	}
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 1, 2))
}

func TestForgottenRoundsAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	for round := range uint64(2) {
		student.mustAsk(t, roundtest.VoteRound(spec.Name, round, 2))
	}
	_, _, err := c.server.store.Charge(testkit.Within(t), c.server.lead, coordinator.Charge{
		Question: coordinator.Question{Run: spec.Name, Round: 2, Use: privacy.Use{Queries: 1, Answered: 1}},
		Release:  []byte("x"), Forget: 1,
	})
	testkit.Must(t, err)
	forgotten := func() {
		t.Helper()
		_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 2), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition,
			`round 0 of run "`+spec.Name+`" was released and its answer dropped`, "newest checkpoint")
	}
	forgotten()
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 1, 2)) // is kept
	_, err = student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 4, 2), nil)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "round 4", "round 3 is due")
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 3, 2))

	// Also after a restart, and once the run is closed.
	testkit.Must(t, c.stop())
	c.start(Options{})
	student = c.student(t)
	forgotten()
	_, err = c.server.store.CloseRun(testkit.Within(t), c.server.lead, spec.Name)
	testkit.Must(t, err)
	forgotten()
}
