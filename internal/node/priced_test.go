package node

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const samples = "datasets: [{name: d, epsilon: 9, delta: 1e-5, pipelines: [dpgan], approval: automatic}]"

// sampleTerms are the terms of a run with this many steps on samples at a rate.
func sampleTerms(t testing.TB, n *Node, r *conclavev1.Round, rate float64, count uint64) *conclavev1.RoundTerms {
	return termsFor(t, n, r, 1, func(s *conclavev1.RunSpec) {
		s.Pipeline, s.Plan = "dpgan", []*conclavev1.Planned{{Kind: "discriminator", Count: count,
			Mechanism: &conclavev1.PrivacyEvent{Kind: "subsampled-gaussian", NoiseMultiplier: 5, Rate: rate}}}
	})
}

// Two alternating questions get a new sample at each charge, and only then.
func TestEachSampleIsCharged(t *testing.T) {
	n := start(t, policed(t, smallConfig(t, 4), samples), questiontest.SmallTable(t, 80, 1))
	rounds := []*conclavev1.Round{discriminatorRound("r", 0, nil), discriminatorRound("r", 1, nil)}
	const planned = 6
	terms := sampleTerms(t, n, rounds[0], 0.5, planned)
	var drawn [][]int64
	for i := range 4 * planned {
		for range 2 { // the second time is free, with the same answer
			m := askUnder(t, n, rounds[i%2], terms)
			if i >= planned && i%2 == 0 { // the other one was charged last
				if reason := m.GetRefusal().GetReason(); !strings.Contains(reason, "all questions that run r planned") {
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

// A question is not answered at another question's price: for a smaller sample, or for a smaller sensitivity.
func TestAQuestionIsWhatItsPriceIsFor(t *testing.T) {
	policy := "datasets: [{name: d, epsilon: 9, delta: 1e-5, pipelines: [dpgan, embed], stages: [fit], " +
		"approval: automatic}]"
	sample := func(rate float64) *conclavev1.Round {
		return discriminatorRound("r", 0, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
	}
	sampled := func(rate float64) *conclavev1.PrivacyEvent {
		return &conclavev1.PrivacyEvent{Kind: "subsampled-gaussian", NoiseMultiplier: 5, Rate: rate}
	}
	gnmax := &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: 50}
	gaussian := func(sensitivity float64) *conclavev1.PrivacyEvent {
		return &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 5, Sensitivity: sensitivity}
	}
	for name, c := range map[string]struct {
		pipeline string
		asks     *conclavev1.Round
		pays     *conclavev1.PrivacyEvent
		answered bool
	}{
		"a sample":                        {"dpgan", sample(0.5), sampled(0.5), true},
		"a larger sample":                 {"dpgan", sample(0.5), sampled(0.4), false},
		"all as a sample":                 {"dpgan", sample(1), sampled(1e-6), false},
		"a sample as all":                 {"dpgan", sample(0.5), gaussian(1), false},
		"a sum":                           {"embed", embeddingRound("r", 0), gaussian(1), true},
		"a sum that nobody seems to move": {"embed", embeddingRound("r", 0), gaussian(1e-6), false},
		"a fit":                           {"embed", logisticRound("r", 0, 1), gaussian(1), true},
		"a fit as one of a sample":        {"embed", logisticRound("r", 0, 1), sampled(1e-6), false},
		"a fit that nobody seems to move": {"embed", logisticRound("r", 0, 1), gaussian(1e-6), false},
		"a fit as votes":                  {"embed", logisticRound("r", 0, 1), gnmax, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, policed(t, smallConfig(t, 4), policy), questiontest.SmallTable(t, 80, 1))
			m := askUnder(t, n, c.asks, termsFor(t, n, c.asks, 1, func(s *conclavev1.RunSpec) {
				planned := &conclavev1.Planned{Kind: c.asks.Kind, Count: 1, Mechanism: c.pays}
				if len(c.asks.Serves) > 0 {
					planned.Stage = "fit"
				}
				s.Pipeline, s.Plan = c.pipeline, []*conclavev1.Planned{planned}
			}))
			if c.answered != (m.GetSum() != nil) ||
				c.answered == strings.Contains(m.GetRefusal().GetReason(), "terms: ") {
				t.Errorf("answered with %v; want an answer: %v", m, c.answered)
			}
			status, err := n.policy.enforcer.Status()
			testkit.Must(t, err)
			if charged := len(status.Runs) == 1 && status.Runs[0].Charges == 1; charged != c.answered {
				t.Errorf("charged: %+v", status.Runs)
			}
		})
	}
}

// A node stores only charged answers: an answer that could not be charged replaces nothing. Otherwise the previous
// question, which is free, would be answered anew.
func TestWhatIsKeptWasCharged(t *testing.T) {
	for name, ask := range map[string]func(round uint64, which uint32) *conclavev1.Round{
		"a sample": func(round uint64, which uint32) *conclavev1.Round {
			return discriminatorRound("r", round, func(q *conclavev1.DiscriminatorSum) { q.Clip += float64(which) })
		},
		"votes": func(round uint64, which uint32) *conclavev1.Round {
			return questiontest.Change(voteRound("r", round), func(q *conclavev1.VoteQuestion) {
				q.Teacher.Steps += which
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := policed(t, smallConfig(t, 4), strings.Replace(samples, "dpgan", "dpgan, pategan", 1))
			n := start(t, c, questiontest.SmallTable(t, 80, 1))
			first, second := ask(1, 0), ask(1, 1)
			terms := sampleTerms(t, n, first, 0.5, 3)
			if first.GetVotes() != nil {
				terms = termsFor(t, n, first, 50, nil)
			}
			want := askUnder(t, n, first, terms)
			if want.GetRefusal() != nil {
				t.Fatal(want)
			}
			// The ledger disappears while the second question is worked on.
			all := maps.Clone(n.kinds)
			n.kinds = question.Registry{first.Kind: breaking(all[first.Kind], func() {
				testkit.Must(t, os.Rename(c.LedgerPath(), c.LedgerPath()+".away"))
			})}
			if m := askUnder(t, n, second, terms); !m.GetRefusal().GetWaiting() {
				t.Fatalf("without a ledger: %v", m)
			}
			n.kinds = all
			testkit.Must(t, os.Rename(c.LedgerPath()+".away", c.LedgerPath()))
			for _, at := range []string{"the node", "the node after a restart"} {
				if got := askUnder(t, n, first, terms); !proto.Equal(got, want) {
					t.Errorf("%s answers what was charged last with %v, want %v", at, got, want)
				}
				n = start(t, c, questiontest.SmallTable(t, 80, 1))
			}
			status, err := n.policy.enforcer.Status()
			testkit.Must(t, err)
			if status.Runs[0].Charges != 1 {
				t.Errorf("%d charges", status.Runs[0].Charges)
			}
		})
	}
}

// breaking is a kind that calls happens before each answer.
func breaking(k question.Kind, happens func()) question.Kind {
	read := k.Read
	k.Read = func(p *question.Public, params []byte) (*question.Checked, error) {
		checked, err := read(p, params)
		if err != nil {
			return nil, err
		}
		of := *checked
		if of.Votes != nil {
			of.Votes = func(s *question.Site, r question.Round) ([]byte, error) {
				happens()
				return checked.Votes(s, r)
			}
		}
		if of.Sum != nil {
			of.Sum = func(s *question.Site, r question.Round) ([]int64, error) {
				happens()
				return checked.Sum(s, r)
			}
		}
		return &of, nil
	}
	return k
}
