package aggregator

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// If a unit may be at two sites, a run must declare that and pay for it in every plan entry. Its releases are charged
// accordingly.
func TestRunsPayForOverlap(t *testing.T) {
	t.Parallel()
	two := privacy.Budget{Epsilon: 100, Delta: 1e-5, Overlap: 2}
	c := newCluster(t, Options{}, func(c *Config) {
		c.Datasets = append(c.Datasets, DatasetConfig{
			Name: "both", SchemaSHA256: roundtest.Schema, Unit: "record", Overlap: 2,
			Budget: privacy.Budget{Epsilon: 100, Delta: 1e-5},
		})
	})
	student := c.student(t)
	votes := roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.GNMax(40), 0))
	counts := roundtest.Planned(runspec.ClassCounts, roundtest.Laplace(0.1), 1)
	counting := func(overlap uint32, plan privacy.Plan) func(*conclavev1.RunSpec) {
		return func(s *conclavev1.RunSpec) { s.Overlap, s.Plan = overlap, runspec.Of(plan) }
	}
	of := func(b privacy.Budget, p privacy.Planned) privacy.Planned {
		p.Mechanism = b.Event(p.Mechanism)
		return p
	}
	for _, plan := range []privacy.Plan{{votes, counts}, {of(two, votes), counts}, {votes, of(two, counts)},
		{of(two.WithOverlap(3), votes), of(two, counts)}} {
		err := student.tryOpen(t, "both", counting(2, plan))
		roundtest.WantStatus(t, err, codes.InvalidArgument, "a privacy unit may be at up to 2 sites")
	}
	paid := privacy.Plan{of(two, votes), of(two, counts)}
	err := student.tryOpen(t, "both", counting(0, privacy.Plan{votes, counts}))
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "set privacy.overlap: 2")
	err = student.tryOpen(t, "d0", counting(2, paid))
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "set privacy.overlap: 1")

	spec, _ := student.open(t, "both", counting(2, paid))
	c.node(t, hello("both", "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 3))
	entries, err := c.server.store.Ledger(testkit.Within(t), "both")
	testkit.Must(t, err)
	last := entries[len(entries)-1]
	want := []privacy.Event{{Kind: privacy.GNMax, Sigma: 40, Sensitivity: 2, Count: 3}}
	if !slices.Equal(last.Events, want) {
		t.Errorf("charged %v, want %v", last.Events, want)
	}
	// Two moved votes under noise 40 are as visible as one under noise 20.
	if want := gaussianEpsilon(math.Sqrt(3*2)/20, 1e-5); math.Abs(last.EpsilonSpent-want) > 1e-6 {
		t.Errorf("epsilon spent is %v, want %v", last.EpsilonSpent, want)
	}
	if opened := entries[0].Budget; opened.Overlap != 2 {
		t.Errorf("the dataset was opened with %+v", opened)
	}
}

// A node whose units may be at more sites than the dataset allows is refused.
func TestNodesSayWhereTheirUnitsMayBe(t *testing.T) {
	c := shared(t)
	client := rpc.NewTeacherServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north")))
	h := hello(c.dataset(), "north", "a", 4)
	h.Overlap = 2
	_, err := client.Check(testkit.Within(t), &conclavev1.CheckRequest{Hello: h})
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "may be at up to 2 sites")
}
