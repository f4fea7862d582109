package aggregator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A release is the sum of what the nodes sent with Gaussian noise of 2 x bound x
// multiplier on every number, for one Gaussian event a round.
func TestGradientSums(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	const records, multiplier, bound = 1500, 2.5, 1 << 16
	spec, _ := student.open(t, d, roundtest.SumsOf(multiplier))
	north, south := make([]int64, 3*records), make([]int64, 3*records)
	for i := range north {
		north[i], south[i] = int64(i%7-3)*100, int64(i%1000)*4
	}
	c.node(t, hello(d, "north", "a", 5), roundtest.Sums(north))
	c.node(t, hello(d, "south", "a", 3), roundtest.Sums(south))
	testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
	var noise []float64
	for number := range uint64(3) {
		r := student.mustAsk(t, roundtest.GradientRound(spec.Name, number, records, nil))
		if r.GetSum().GetScale() != bound || r.GetTeachers() != 8 || len(r.GetSum().GetValues()) != 3*records {
			t.Fatalf("a release of %d numbers at scale %d by %d teachers", len(r.GetSum().GetValues()),
				r.GetSum().GetScale(), r.GetTeachers())
		}
		for i, v := range r.GetSum().GetValues() {
			noise = append(noise, float64(v-north[i]-south[i])/(2*bound*multiplier))
		}
		if want := gaussianEpsilon(math.Sqrt(float64(number+1))/multiplier,
			1e-5); math.Abs(r.GetEpsilonSpent()-want) > 1e-9*want {
			t.Errorf("epsilon %v after %d rounds, want %v", r.GetEpsilonSpent(), number+1, want)
		}
	}
	// Mean and mean square of n standard normal numbers are 0 and 1, with standard
	// deviations of 1 and sqrt(2) over sqrt(n); so is the mean product of neighbours. Six of
	// them are passed in each with a chance of 2e-9.
	var mean, square, product float64
	n := float64(len(noise))
	for i, v := range noise {
		mean, square, product = mean+v/n, square+v*v/n, product+v*noise[(i+1)%len(noise)]/n
	}
	if limit := 6 / math.Sqrt(n); math.Abs(mean) > limit || math.Abs(square-1) > math.Sqrt2*limit ||
		math.Abs(product) > limit {
		t.Errorf("%v numbers: mean %v, mean square %v, mean product %v; want 0, 1, 0 +- %v", n, mean, square, product,
			limit)
	}
	entries := student.ledger(t, spec.Name)
	if len(entries) != 3 {
		t.Fatalf("%d releases in the ledger", len(entries))
	}
	for _, e := range entries {
		if diff := cmp.Diff(roundtest.Times(1, roundtest.Gaussian(multiplier)), e.Events); diff != "" ||
			e.Kind != runspec.GradientSums ||
			e.Queries != 1 || e.Answered != 1 || e.Entries != 3*records {
			t.Errorf("kind %q, %d of %d queries, %d entries %s", e.Kind, e.Answered, e.Queries, e.Entries, diff)
		}
	}
}

// What a node sends that its teachers cannot have made is rejected by its name, and
// nothing is charged.
func TestSumsThatCannotBeAreRejected(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	const teachers, bound = 4, 1 << 16
	longest := make([]int64, 6)
	longest[2] = teachers * bound
	entry, long := slices.Clone(longest), slices.Clone(longest)
	entry[2]++
	long[2], long[3] = 3*bound, 3*bound
	negative := make([]int64, 6)
	negative[5] = math.MinInt64
	for name, bad := range map[string]struct {
		values []int64
		want   string // nothing: it counts
	}{
		"as long as can be": {longest, ""},
		"a large entry":     {entry, "entry 2 of the sum is out of range: larger than 4 teachers can make it"},
		"the least integer": {negative, "entry 5 of the sum is out of range: larger"},
		"too long a vector": {long, "the sum is out of range: longer than 4 teachers can make it"},
		"one number less":   {longest[1:], "5 entries where 6 were asked"},
		"one number more":   {append(slices.Clone(longest), 0), "7 entries where 6 were asked"},
		"no number":         {nil, "0 entries where 6 were asked"},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.dataset()
			spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { roundtest.SumsOf(2)(s); s.Teachers = teachers })
			c.node(t, hello(d, "north", "bad", teachers), roundtest.Sums(bad.values))
			_, err := student.ask(testkit.Within(t), roundtest.GradientRound(spec.Name, 0, 2, nil), nil)
			if bad.want == "" {
				testkit.Must(t, err)
				return
			}
			roundtest.WantStatus(t, err, codes.FailedPrecondition, "north/bad", bad.want)
			if strings.Contains(err.Error(), fmt.Sprint(3*bound)) {
				t.Errorf("%q tells of the sum", err)
			}
			if entries := student.ledger(t, spec.Name); len(entries) != 0 {
				t.Errorf("charged %v", entries)
			}
		})
	}
	t.Run("votes where a sum was asked, and the reverse", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.SumsOf(2))
		c.node(t, hello(d, "north", "bad", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{
				roundtest.Addressed(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{
					Votes: &conclavev1.Votes{Teachers: 8, Queries: 6, Packed: make([]byte, 8)}}}, r),
			}
		})
		_, err := student.ask(testkit.Within(t), roundtest.GradientRound(spec.Name, 0, 2, nil), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "north/bad", "votes where a sum was asked")

		d = c.dataset()
		spec, _ = student.open(t, d, roundtest.BinsBy(roundtest.GNMax(20)))
		c.node(t, hello(d, "south", "bad", 8), roundtest.Sums(make([]int64, 4)))
		_, err = student.ask(testkit.Within(t), roundtest.BinRound(spec.Name, 0, 2), nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "south/bad", "a sum where votes were asked")
	})
	t.Run("a bad node does not spoil the others", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, roundtest.SumsOf(2))
		c.node(t, hello(d, "north", "good", 6), roundtest.Sums(longest))
		c.node(t, hello(d, "south", "bad", 2), roundtest.Sums(longest)) // what four teachers can make
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		r := student.mustAsk(t, roundtest.GradientRound(spec.Name, 0, 2, nil))
		// Noise of 2 x 2 bounds: ten of its standard deviations are passed with a chance
		// below 1e-21.
		if v := float64(r.GetSum().GetValues()[2]); r.GetTeachers() != 6 || math.Abs(v-teachers*bound) > 40*bound {
			t.Errorf("%d teachers took part, entry 2 is %v", r.GetTeachers(), v)
		}
	})
}

// Every record and direction of votes on gradients is a query that is paid for.
func TestVotesOnGradientsAreChargedOneByOne(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	for _, m := range []struct {
		planned privacy.Planned
		cost    func(asked, answered int64) []privacy.Event
	}{
		{roundtest.Histograms(roundtest.Planned(runspec.GradientVotes, roundtest.GNMax(30), 0)),
			func(asked, _ int64) []privacy.Event {
				return []privacy.Event{{Kind: privacy.GNMax, Sigma: 30, Count: asked}}
			}},
		{roundtest.Planned(runspec.GradientVotes, roundtest.ConfidentMax(35, 40, 25), 0),
			func(asked, answered int64) []privacy.Event {
				return []privacy.Event{{Kind: privacy.ConfidentGNMax, Sigma1: 40, Sigma2: 25, Threshold: 35,
					Asked:    asked,
					Answered: answered}}
			}},
	} {
		t.Run(string(m.planned.Mechanism.Kind), func(t *testing.T) {
			d := c.dataset()
			spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
				roundtest.Trains(m.planned)(s)
				s.Teachers,
					s.Epsilon = 60, 50
			})
			c.node(t, hello(d, "north", "a", 60), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
				queries := int(r.GetVotes().GetQueries())
				return []*conclavev1.WorkRequest{
					roundtest.Addressed(
						&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
							Teachers: 60, Queries: uint32(queries),
							Packed: roundtest.PackVotes(60, queries, 10,
								func(teacher, query int) int { return (query + teacher*(query%2)) % 10 }),
						}}},
						r,
					),
				}
			})
			for number, records := range []int{4, 11} {
				r := student.mustAsk(t, roundtest.BinRound(spec.Name, uint64(number), records))
				queries, answered := 2*records, int64(0)
				v := r.GetVotes()
				if len(v.GetLabels()) != queries || v.GetClasses() != 10 {
					t.Fatalf("%d labels of %d classes for %d queries", len(v.GetLabels()), v.GetClasses(), queries)
				}
				if want := map[bool]int{true: 10 * queries}[m.planned.Variant == privacy.Histogram]; len(
					v.GetHistogram(),
				) != want {
					t.Errorf("a histogram of %d counts, want %d", len(v.GetHistogram()), want)
				}
				for _, label := range v.GetLabels() {
					if label >= 0 {
						answered++
					}
				}
				entry := student.ledger(t, spec.Name)[number]
				if diff := cmp.Diff(m.cost(int64(queries), answered), entry.Events); diff != "" {
					t.Error(diff)
				}
				if entry.Kind != runspec.GradientVotes || entry.Entries != 0 || entry.Queries != int64(queries) ||
					entry.Answered != answered {
					t.Errorf("kind %q, %d of %d queries, want %d of %d", entry.Kind, entry.Answered, entry.Queries,
						answered, queries)
				}
			}
		})
	}
}

// The filter asks what all of a round's records and directions can cost.
func TestVotesOnGradientsBeyondTheBudgetAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	// A query costs 2/30²: 40 of them are 0.3-GDP, an epsilon of 1.2; 3 directions of as
	// many records are 0.52-GDP, an epsilon of 2.2.
	spec, _ := student.open(
		t,
		d,
		func(s *conclavev1.RunSpec) { roundtest.BinsBy(roundtest.GNMax(30))(s); s.Epsilon = 1.5 },
	)
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	_, err := student.ask(testkit.Within(t), roundtest.BinRound(spec.Name, 0, 60), nil)
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "budget")

	d = c.dataset()
	spec, _ = student.open(t, d, func(s *conclavev1.RunSpec) { roundtest.SumsOf(2)(s); s.Epsilon = 1.5 })
	sumNode := c.node(t, hello(d, "south", "a", 8), roundtest.Silent)
	_, err = student.ask(testkit.Within(t), roundtest.GradientRound(spec.Name, 0, 2, nil), nil)
	roundtest.WantStatus(t, err, codes.ResourceExhausted, "budget")
	if len(node.rounds)+len(sumNode.rounds) != 0 {
		t.Error("nodes saw a round that nobody could pay for")
	}
}
