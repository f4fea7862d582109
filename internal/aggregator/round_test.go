package aggregator

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// releasesOf picks the release entries of a run from ledger lines.
func releasesOf(t testing.TB, lines, run string) []ledger.Entry {
	t.Helper()
	var out []ledger.Entry
	for line := range strings.Lines(lines) {
		var e ledger.Entry
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		if e.Run == run && e.Type == ledger.EntryRelease {
			out = append(out, e)
		}
	}
	return out
}

// chargesOf returns the ledger entries of questions, released or abandoned.
func chargesOf(t testing.TB, lines string) []ledger.Entry {
	t.Helper()
	var out []ledger.Entry
	for line := range strings.Lines(lines) {
		var e ledger.Entry
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		if len(e.Events) > 0 {
			out = append(out, e)
		}
	}
	return out
}

// gaussianEpsilon is the exact epsilon of a mu-Gaussian-DP release at delta (Balle and Wang 2018, Theorem 8), by
// bisection. It is independent of the code under test.
func gaussianEpsilon(mu, delta float64) float64 {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	low, high := 0.0, 200.0
	for range 200 {
		eps := (low + high) / 2
		if phi(mu/2-eps/mu)-math.Exp(eps)*phi(-mu/2-eps/mu) > delta {
			low = eps
		} else {
			high = eps
		}
	}
	return high
}

// pureEpsilon is the epsilon at delta of a few epsilon-DP releases: basic
// composition, or Renyi composition of the worst epsilon-DP mechanism,
// randomized response, converted by Canonne, Kamath and Steinke (2020),
// Proposition 12.
func pureEpsilon(epsilon float64, count int64, delta float64) float64 {
	least := epsilon * float64(count)
	for _, a := range privacy.Orders() {
		rdp := math.Log((math.Sinh(a*epsilon)-math.Sinh((a-1)*epsilon))/math.Sinh(epsilon)) / (a - 1)
		at := float64(count)*rdp + math.Log1p(-1/a) - (math.Log(delta)+math.Log(a))/(a-1)
		if at < least { // false at orders where sinh overflows
			least = at
		}
	}
	return least
}

func TestRounds(t *testing.T) {
	c := shared(t)
	student := c.student(t)

	t.Run("every mechanism costs exactly what its queries cost", func(t *testing.T) {
		for _, m := range []struct {
			name    string
			planned privacy.Planned
			epsilon func(asked, answered int64) float64
		}{
			{"lnmax", roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.LNMax(0.01), 0)),
				// A changed vote moves two counts by one each.
				func(asked, _ int64) float64 { return pureEpsilon(0.01, 2*asked, 1e-5) }},
			{"gnmax", roundtest.Planned(runspec.Votes, roundtest.GNMax(30), 0),
				func(asked, _ int64) float64 { return gaussianEpsilon(math.Sqrt(float64(asked)*2/(30*30)), 1e-5) }},
			{"confident", roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(40, 25, 20), 0)),
				func(asked, answered int64) float64 {
					return gaussianEpsilon(math.Sqrt(float64(asked)/(25*25)+float64(answered)*2/(20*20)), 1e-5)
				}},
		} {
			t.Run(m.name, func(t *testing.T) {
				d := c.dataset()
				spec, _ := student.open(t, d,
					func(s *conclavev1.RunSpec) { roundtest.Trains(m.planned)(s); s.Teachers = 60 })
				// Two nodes: even queries have all votes for one class, odd ones are split.
				split := func(t, q int) int { return t % 2 * (q % 2) }
				c.node(t, hello(d, "north", "a", 40), roundtest.Votes(40, split))
				c.node(t, hello(d, "south", "a", 20), roundtest.Votes(20, split))
				c.awaitTeachers(t, d, 60)
				asked, answered := int64(0), int64(0)
				var spent float64
				for number, queries := range []int{3, 4, 1, 2} {
					r := student.mustAsk(t, roundtest.VoteRound(spec.Name, uint64(number), queries))
					asked += int64(queries)
					checkVotes(t, r, queries, m.planned.Variant == privacy.Histogram)
					for _, label := range r.GetVotes().GetLabels() {
						if label >= 0 {
							answered++
						}
					}
					if r.GetTeachers() != 60 {
						t.Errorf("round %d counts %d teachers", number, r.GetTeachers())
					}
					spent = r.GetEpsilonSpent()
				}
				if want := m.epsilon(asked, answered); math.Abs(spent-want) > 1e-9*want {
					t.Errorf("the ledger says epsilon %v, the queries cost %v", spent, want)
				}
				var sum privacy.Event
				for _, e := range student.ledger(t, spec.Name) {
					for _, v := range e.Events {
						sum.Count, sum.Asked, sum.Answered = sum.Count+v.Count, sum.Asked+v.Asked,
							sum.Answered+v.Answered
					}
				}
				if sum.Count+sum.Asked != asked || (sum.Asked > 0 && sum.Answered != answered) {
					t.Errorf("the ledger holds %d queries (%d answered), %d (%d) were", sum.Count+sum.Asked,
						sum.Answered, asked, answered)
				}
			})
		}
	})

	t.Run("requests for one round share its execution", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, nil)
		begin := make(chan struct{})
		node := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			<-begin
			return roundtest.Votes(8, roundtest.Alternating)(r)
		})
		var wg sync.WaitGroup
		releases := make([]*conclavev1.Release, 5)
		for i := range releases {
			wg.Go(func() {
				r, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 4), nil)
				if err != nil {
					t.Error(err)
				}
				releases[i] = r
			})
		}
		testkit.Eventually(t, "five waiting requests", func() bool {
			return c.server.rounds.Waiting(t.Context(), spec.Name) == 5
		})
		other := roundtest.VoteRound(spec.Name, 0, 5)
		student.refused(t, other, codes.FailedPrecondition, "is open")
		close(begin)
		wg.Wait()
		for _, r := range releases[1:] {
			if !proto.Equal(r, releases[0]) {
				t.Errorf("different releases: %v and %v", releases[0], r)
			}
		}
		if n := len(student.ledger(t, spec.Name)); n != 1 || len(node.rounds) != 1 {
			t.Errorf("%d charges, %d rounds at the node", n, len(node.rounds))
		}
	})

	t.Run("a run stops before its budget is passed", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Epsilon = 1 })
		node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
		cost := func(queries int) float64 { return gaussianEpsilon(math.Sqrt(float64(queries)*2/400), 1e-5) }
		for number := uint64(0); ; number++ {
			r, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, number, 4), nil)
			if err == nil {
				if r.GetEpsilonSpent() > 1 {
					t.Fatalf("round %d brought epsilon to %v", number, r.GetEpsilonSpent())
				}
				continue
			}
			roundtest.WantStatus(t, err, codes.ResourceExhausted, spec.Name, "budget")
			if number == 0 || cost(int(number)*4) > 1 || cost(int(number+1)*4) <= 1 {
				t.Errorf("stopped after %d rounds: %v spent, %v with the next", number, cost(int(number)*4),
					cost(int(number+1)*4))
			}
			if len(node.rounds) != int(number) {
				t.Errorf("the node saw %d rounds, %d were released", len(node.rounds), number)
			}
			if len(student.ledger(t, spec.Name)) != int(number) {
				t.Error("the refused round was charged")
			}
			break
		}
	})

	t.Run("runs share the budget of their dataset", func(t *testing.T) {
		d := c.dataset()
		c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
		strong := func(name string) func(*conclavev1.RunSpec) {
			return func(s *conclavev1.RunSpec) { s.Name, s.Epsilon, s.Plan[0].Mechanism.Sigma = name, 99, 1.5 }
		}
		first, _ := student.open(t, d, strong("first-"+d))
		second, _ := student.open(t, d, strong("second-"+d))
		var err error
		for i := uint64(0); err == nil; i++ {
			name := []string{first.Name, second.Name}[i%2]
			_, err = student.ask(testkit.Within(t), roundtest.VoteRound(name, i/2, 30), nil)
		}
		roundtest.WantStatus(t, err, codes.ResourceExhausted, "dataset", d)
	})

	t.Run("a round waits for its quorum, says so, and goes on", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { s.Teachers, s.Quorum = 4, 1 })
		ask := func(number uint64) (<-chan *conclavev1.Progress, <-chan error) {
			progress, done := make(chan *conclavev1.Progress, 100), make(chan error, 1)
			go func() {
				_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, number, 2),
					func(p *conclavev1.Progress) {
						progress <- p
					})
				done <- err
			}()
			return progress, done
		}
		waits := func(progress <-chan *conclavev1.Progress, live uint32) {
			t.Helper()
			for {
				select {
				case p := <-progress:
					if p.GetTeachersLive() == live && p.GetWaitingForQuorum() && p.GetTeachersNeeded() == 4 {
						return
					}
				case <-time.After(testkit.Patience):
					t.Fatalf("no progress that waits with %d teachers", live)
				}
			}
		}
		north := c.node(t, hello(d, "north", "a", 2), roundtest.Votes(2, roundtest.Alternating))
		progress, done := ask(0)
		waits(progress, 2)
		if len(north.rounds) != 0 {
			t.Error("the round went out without a quorum")
		}
		south := c.node(t, hello(d, "south", "a", 2), roundtest.Votes(2, roundtest.Alternating))
		testkit.Must(t, testkit.Receive(t, done))
		south.leave()
		c.awaitTeachers(t, d, 2)
		progress, done = ask(1)
		waits(progress, 2)
		c.node(t, hello(d, "south", "a", 2), roundtest.Votes(2, roundtest.Alternating))
		testkit.Must(t, testkit.Receive(t, done))
	})

	t.Run("the deadline ends a round that has its quorum, and who was slow is not told", func(t *testing.T) {
		d := c.dataset()
		spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
			s.Teachers, s.Quorum, s.DeadlineSeconds = 4, 0.5,
				0.3
		})
		c.node(t, hello(d, "north", "a", 2), roundtest.Votes(2, roundtest.Alternating))
		slow := c.node(t, hello(d, "south", "a", 2), roundtest.Silent)
		began := time.Now()
		r, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 2), func(p *conclavev1.Progress) {
			if want := (&conclavev1.Progress{TeachersNeeded: 2, TeachersLive: 4}); !proto.Equal(p, want) {
				t.Errorf("progress %v, want %v", p, want)
			}
		})
		testkit.Must(t, err)
		if took := time.Since(began); r.GetTeachers() != 4 || took < 290*time.Millisecond {
			t.Errorf("%d teachers after %v", r.GetTeachers(), took)
		}
		select {
		case w := <-slow.withdrawn:
			if w.GetRun() != spec.Name || w.GetRound() != 0 {
				t.Errorf("withdrawn was %v", w)
			}
		case <-time.After(testkit.Patience):
			t.Error("the roundtest.Silent node was not told")
		}
	})

	t.Run("rounds come in order", func(t *testing.T) {
		student, spec, _ := c.begin(t, nil, roundtest.Votes(8, roundtest.Alternating))
		for _, number := range []uint64{1, 7, math.MaxUint64} {
			student.refused(t, roundtest.VoteRound(spec.Name, number, 2), codes.FailedPrecondition, "want round 0")
		}
		student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2))
		student.refused(t, roundtest.VoteRound(spec.Name, 2, 2), codes.FailedPrecondition, "want round 1")
		student.refused(t, roundtest.VoteRound("nobody", 0, 2), codes.NotFound)
	})
}

// checkVotes checks the shape of a release, and that whole histograms and labels are consistent.
func checkVotes(t *testing.T, r *conclavev1.Release, queries int, whole bool) {
	t.Helper()
	v := r.GetVotes()
	if v.GetClasses() != 2 || len(v.GetLabels()) != queries {
		t.Fatalf("a release of %d labels in %d classes for %d queries", len(v.GetLabels()), v.GetClasses(), queries)
	}
	if !whole {
		if len(v.GetHistogram()) != 0 {
			t.Error("a histogram was released that nobody wanted")
		}
		return
	}
	if len(v.GetHistogram()) != 2*queries {
		t.Fatalf("a histogram of %d counts", len(v.GetHistogram()))
	}
	for q, label := range v.GetLabels() {
		row := v.GetHistogram()[2*q : 2*q+2]
		switch {
		case label == -1:
			if row[0] != 0 || row[1] != 0 {
				t.Errorf("query %d was not answered and has counts", q)
			}
		case row[label] < row[1-label]:
			t.Errorf("query %d: label %d is not the largest of its counts", q, label)
		}
	}
}
