package aggregator

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A release is the sum of what the nodes sent with Gaussian noise of bound x sigma on every
// number, for one Gaussian event, in the first round of a run of any mechanism.
func TestEmbeddingSums(t *testing.T) {
	t.Parallel()
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64,
		counts []int64) {
		private = append(private, slices.Clone(counts))
	}}})
	student := c.student(t)
	const entries, sigma, bound = 12000, 3.5, 1 << 12
	for name, change := range map[string]func(*conclavev1.RunSpec){
		"sums":              roundtest.EmbeddingOf(sigma),
		"votes":             roundtest.Also(roundtest.Embedding(sigma)),
		"sums of gradients": roundtest.Both(roundtest.SumsOf(2), roundtest.Also(roundtest.Embedding(sigma))),
	} {
		private = nil
		d := c.dataset()
		spec, opened := student.open(t, d, change)
		if opened.GetRounds() != 0 || opened.GetEpsilonSpent() != 0 {
			t.Errorf("%s: opened with %v", name, opened)
		}
		north, south := make([]int64, entries), make([]int64, entries)
		for i := range north {
			north[i], south[i] = int64(i%7-3)*100, int64(i%1000)*40
		}
		c.node(t, hello(d, "north", "a", 5), roundtest.Sums(north))
		n := c.node(t, hello(d, "south", "a", 3), roundtest.Sums(south))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		round := roundtest.Paid(spec, "", roundtest.EmbeddingRound(spec.Name, 0, entries,
			func(v *conclavev1.Vector) { v.Bound = bound }))
		r := student.mustAsk(t, round)
		if r.GetSum().GetScale() != bound || r.GetTeachers() != 8 || len(r.GetSum().GetValues()) != entries {
			t.Fatalf("%s: a release of %d numbers at scale %d by %d teachers", name, len(r.GetSum().GetValues()),
				r.GetSum().GetScale(), r.GetTeachers())
		}
		if want := gaussianEpsilon(1/sigma, 1e-5); math.Abs(r.GetEpsilonSpent()-want) > 1e-9*want {
			t.Errorf("%s: epsilon %v, want %v", name, r.GetEpsilonSpent(), want)
		}
		// As in TestGradientSums: six standard deviations each, passed with a chance of 2e-9.
		var mean, square, product float64
		noise := make([]float64, entries)
		for i, v := range r.GetSum().GetValues() {
			noise[i] = float64(v-north[i]-south[i]) / (bound * sigma)
		}
		for i, v := range noise {
			mean, square, product = mean+v/entries, square+v*v/entries, product+v*noise[(i+1)%entries]/entries
		}
		if limit := 6 / math.Sqrt(entries); math.Abs(mean) > limit || math.Abs(square-1) > math.Sqrt2*limit ||
			math.Abs(product) > limit {
			t.Errorf("%s: mean %v, mean square %v, mean product %v; want 0, 1, 0 +- %v", name, mean, square, product,
				limit)
		}
		for range 2 {
			if again := student.mustAsk(t, round); !cmp.Equal(again, r, protocmp.Transform()) {
				t.Errorf("%s: asked again it has another release", name)
			}
		}
		if len(n.rounds) != 1 || len(private) != 1 || private[0][7] != north[7]+south[7] ||
			private[0][entries-1] != north[entries-1]+south[entries-1] {
			t.Errorf("%s: a node saw %d rounds, %d sums were drawn from", name, len(n.rounds), len(private))
		}
		got := student.ledger(t, spec.Name)
		if len(got) != 1 || !cmp.Equal(got[0].Events, roundtest.Times(1, roundtest.Gaussian(sigma))) ||
			got[0].Kind != runspec.Embedding ||
			*got[0].Planned != int(round.Planned) || got[0].Queries != 1 || got[0].Answered != 1 ||
			got[0].Entries != entries {
			t.Fatalf("%s: the ledger has %+v", name, got)
		}
		_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
		testkit.Must(t, err)
		if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The plan of a run of samples holds one embedding, which may come in any round.
func TestAPlanHoldsOneEmbedding(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	const sigma, multiplier = 4., 2.
	d := c.planned()
	plan := privacy.Plan{roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(multiplier, 0.25), 2),
		roundtest.Planned(runspec.Embedding, roundtest.Gaussian(sigma), 1)}
	spec, _ := student.open(t, d, roundtest.Both(roundtest.Wholly, roundtest.Asks(plan...)))
	of := func(number uint64) *conclavev1.Round {
		return roundtest.Paid(spec, "", roundtest.EmbeddingRound(spec.Name, number, 6, nil))
	}
	n := c.node(t, hello(d, "north", "a", 8), roundtest.Sums(make([]int64, 6)))
	if diff := cmp.Diff(plan, planOf(t, student.lines(t, spec.Name), spec.Name)); diff != "" {
		t.Errorf("the plan: %s", diff)
	}
	student.mustAsk(t, of(0))
	_, err := student.ask(testkit.Within(t), of(1), nil)
	roundtest.WantStatus(t, err, codes.ResourceExhausted, spec.Name, "1 of them are used and 1 more")
	_, err = student.ask(testkit.Within(t), roundtest.CountRound(spec.Name, 1, 2, 1<<16), nil)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "entry 1 of the plan of run",
		"pays for embedding, and the round asks for class-counts")
	if len(n.rounds) != 1 {
		t.Errorf("the node saw %d rounds", len(n.rounds))
	}
	for number := range uint64(2) {
		student.mustAsk(t, roundtest.DiscriminatorRound(spec.Name, number+1, 6, nil))
	}
	_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	claim, err := privacy.Account(plan.Events(), 1e-5)
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != 3 || math.Abs(got.Price.Epsilon-claim.Epsilon) > 1e-9 {
		t.Errorf("the ledger has %+v, want epsilon %v", got, claim.Epsilon)
	}
	// The embedding is part of what has to fit when the run is opened.
	over := roundtest.Spec()
	over.Dataset, over.Name = c.planned(), "over"
	roundtest.Both(roundtest.Wholly, roundtest.Asks(roundtest.Planned(runspec.Discriminator,
		roundtest.Subsampled(100, 0.01), 1), roundtest.Planned(runspec.Embedding, roundtest.Gaussian(2), 1)))(over)
	over.Epsilon = 1
	_, err = student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: over})
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "the whole plan")
}

// Questions that a run does not allow are refused before a node sees them, and cost nothing.
func TestEmbeddingQuestionsAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	opened := func(change func(*conclavev1.RunSpec)) (string, *testNode) {
		d := c.dataset()
		spec, _ := student.open(t, d, change)
		return spec.Name, c.node(t, hello(d, "north", "a", 8), roundtest.Sums(make([]int64, 6)))
	}
	refused := func(run string, n *testNode, round *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		_, err := student.ask(testkit.Within(t), round, nil)
		roundtest.WantStatus(t, err, code, names...)
		if entries := student.ledger(t, run); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("the node saw %d rounds, charged was %v", len(n.rounds), entries)
		}
	}
	run, n := opened(roundtest.EmbeddingOf(2))
	for _, bad := range roundtest.BadVectors() {
		refused(run, n, roundtest.EmbeddingRound(run, 0, 6, bad.Change), codes.InvalidArgument, bad.Want)
	}
	// Votes that a run of sums has no noise for stay refused beside the embedding.
	refused(run, n, roundtest.VoteRound(run, 0, 2), codes.FailedPrecondition,
		"pays for embedding, and the round asks for votes")

	for _, change := range []func(*conclavev1.RunSpec){nil, roundtest.SumsOf(2), roundtest.SamplesOf(2, 0.25, 2)} {
		other, n := opened(change)
		refused(other, n, roundtest.EmbeddingRound(other, 0, 6, nil), codes.FailedPrecondition, other,
			"and the round asks for embedding; open a run whose plan has it")
	}
	// Noise on a sample has another price.
	sample, n := opened(roundtest.Both(roundtest.Wholly,
		roundtest.Asks(roundtest.Planned(runspec.Embedding, roundtest.Subsampled(2, 0.25), 1))))
	refused(sample, n, roundtest.EmbeddingRound(sample, 0, 6, nil), codes.FailedPrecondition, sample,
		"pays for rate 0.25")
	over, n := opened(func(s *conclavev1.RunSpec) { roundtest.EmbeddingOf(2)(s); s.Epsilon = 1 })
	refused(over, n, roundtest.EmbeddingRound(over, 0, 6, nil), codes.ResourceExhausted, over)
	// Noise that can be drawn for a coarser sum only.
	wide, n := opened(roundtest.EmbeddingOf(1e5))
	refused(wide, n, roundtest.EmbeddingRound(wide, 0, 6, nil), codes.InvalidArgument, wide,
		"noise multiplier 100000 times bound 65536")
	student.mustAsk(t, roundtest.EmbeddingRound(wide, 0, 6, func(v *conclavev1.Vector) { v.Bound = 1 << 12 }))

	// A question that is right after all those is answered.
	if r := student.mustAsk(t, roundtest.EmbeddingRound(run, 0, 6, nil)); r.GetTeachers() != 8 {
		t.Errorf("released %v", r)
	}
	// Without a plan the budget alone bounds how many there are: each is charged.
	for number := uint64(1); ; number++ {
		r, err := student.ask(testkit.Within(t), roundtest.EmbeddingRound(run, number, 6, nil), nil)
		if err != nil {
			roundtest.WantStatus(t, err, codes.ResourceExhausted, run)
			break
		}
		if want := gaussianEpsilon(math.Sqrt(float64(number+1))/2,
			1e-5); math.Abs(r.GetEpsilonSpent()-want) > 1e-9*want || number > 100 {
			t.Fatalf("epsilon %v after %d embeddings, want %v", r.GetEpsilonSpent(), number+1, want)
		}
	}

	// A run that says that it is a baseline is opened where that is allowed.
	baseline := roundtest.Spec()
	baseline.Dataset, baseline.CoinVotes = c.dataset(), true
	_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: baseline})
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "coin_votes")
}
