package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const samples = "datasets: [{name: d, epsilon: 9, delta: 1e-5, pipelines: [dpgan], approval: automatic}]"

// sampleTerms are those of a run whose steps take samples at a rate, so many.
func sampleTerms(t testing.TB, n *Node, r *conclavev1.Round, rate float64, count uint64) *conclavev1.RoundTerms {
	return termsFor(t, n, r, 1, func(s *conclavev1.RunSpec) {
		s.Pipeline, s.Plan = "dpgan", []*conclavev1.Planned{{Kind: "discriminator", Count: count,
			Mechanism: &conclavev1.PrivacyEvent{Kind: "subsampled-gaussian", NoiseMultiplier: 5, Rate: rate}}}
	})
}

// Two questions in turn get a sample each time that one is charged, and no more.
func TestEachSampleIsCharged(t *testing.T) {
	n := start(t, policed(t, smallConfig(t, 4), samples), questiontest.SmallTable(t, 80, 1))
	rounds := []*conclavev1.Round{discriminatorRound("r", 0, nil), discriminatorRound("r", 1, nil)}
	const planned = 6
	terms := sampleTerms(t, n, rounds[0], 0.5, planned)
	var drawn [][]int64
	for i := range 4 * planned {
		for range 2 { // the second time is free, and the same
			m := askUnder(t, n, rounds[i%2], terms)
			if i >= planned && i%2 == 0 { // the other one was charged last
				if reason := m.GetRefusal().GetReason(); !strings.Contains(reason, "all that run r planned") {
					t.Fatalf("question %d: %v", i, m)
				}
				break
			}
			values := m.GetSum().GetValues()
			if !slices.ContainsFunc(drawn, func(of []int64) bool { return slices.Equal(of, values) }) {
				drawn = append(drawn, values)
			}
		}
	}
	status, err := n.policy.enforcer.Status()
	testkit.Must(t, err)
	if len(drawn) > planned || status.Runs[0].Charges != planned {
		t.Errorf("%d samples for %d charges of %d", len(drawn), status.Runs[0].Charges, planned)
	}
}

// A question about all records is not answered under the price of a sample.
func TestAQuestionIsWhatItsPriceIsFor(t *testing.T) {
	n := start(t, policed(t, smallConfig(t, 4), samples), questiontest.SmallTable(t, 80, 1))
	for rate, refused := range map[float64]bool{0.5: false, 0.4: true, 1: true} {
		r := discriminatorRound("r", 0, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
		m := askUnder(t, n, r, sampleTerms(t, n, r, 0.5, 1))
		if refused != strings.Contains(m.GetRefusal().GetReason(), "terms: ") || refused != (m.GetSum() == nil) {
			t.Errorf("a sum at rate %v under the price of 0.5: %v", rate, m.GetRefusal())
		}
	}
	status, err := n.policy.enforcer.Status()
	testkit.Must(t, err)
	if len(status.Runs) != 1 || status.Runs[0].Charges != 1 {
		t.Errorf("charged: %+v", status.Runs)
	}
}
