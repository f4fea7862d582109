package aggregator

import (
	"math"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Laplace noise of this scale makes counts of six bytes on average, so that the
// size of the largest round depends on the noise and what is under it.
func wideNoise(s *conclavev1.RunSpec) {
	roundtest.Trains(roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.LNMax(math.Exp2(-34.7)), 0)))(s)
}

// The largest round with the widest noise is answered, whatever its noise, and
// is charged: an answer that is refused for its size, uncharged and with the
// size in the error, would tell of the votes for nothing.
func TestTheLargestReleaseIsCharged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, wideNoise)
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, roundtest.MaxQueries))
	if n := len(r.GetVotes().GetHistogram()); n != 2*roundtest.MaxQueries {
		t.Errorf("a histogram of %d counts", n)
	}
	if entries := student.ledger(t, spec.Name); len(entries) != 1 || entries[0].Queries != roundtest.MaxQueries {
		t.Errorf("the ledger has %d releases", len(entries))
	}
}

// Noise that cannot be drawn is found when the run is opened or the question is
// asked, not when the nodes have answered.
func TestNoiseThatCannotBeDrawnIsRefusedAtOnce(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	open := func(change func(*conclavev1.RunSpec)) error {
		spec := roundtest.Spec()
		spec.Name, spec.Dataset = "refused", d
		change(spec)
		_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		return err
	}
	roundtest.WantStatus(t, open(roundtest.Shares(1e-12)), codes.InvalidArgument, "plan, entry 1",
		"epsilon 1e-12 of class-counts", "raise it")
	roundtest.WantStatus(t, open(roundtest.Trains(roundtest.Planned(runspec.Votes, roundtest.LNMax(1e-13), 0))),
		codes.InvalidArgument, "plan, entry 0", "lambda")
	roundtest.WantStatus(t, open(roundtest.Trains(roundtest.Planned(runspec.Votes, roundtest.GNMax(1e12), 0))),
		codes.InvalidArgument, "plan, entry 0", "sigma")

	spec, _ := student.open(t, d, roundtest.Shares(2e-7))
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	_, err := student.ask(testkit.Within(t), roundtest.CountRound(spec.Name, 0, 2, 1<<16), nil)
	roundtest.WantStatus(t, err, codes.InvalidArgument, "bound of 65536 steps", "lower the bound", "larger "+
		"epsilon")
	if len(node.rounds) != 0 || len(student.ledger(t, spec.Name)) != 0 {
		t.Errorf("the node saw %d rounds, %d releases were charged", len(node.rounds),
			len(student.ledger(t, spec.Name)))
	}
}
