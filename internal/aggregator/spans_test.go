package aggregator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/tracetest"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// traced connects a server to a collector.
func traced(t testing.TB, r *tracetest.Collector) func(*Config) {
	at := r.Serve(t, "")
	return func(c *Config) { c.Traces = tracing.Config{Endpoint: at, Insecure: true} }
}

// A round has a span with its parts, within the span of the student that asked. A fit has none. Spans contain only
// names, numbers of rounds and participants.
func TestSpansOfRounds(t *testing.T) {
	t.Parallel()
	var r tracetest.Collector
	c := newCluster(t, Options{}, traced(t, &r))
	student := c.student(t)
	d, refusing, fitted := c.dataset(), c.dataset(), c.planned()

	spec, _ := student.open(t, d, nil)
	c.node(t, hello(d, "north", "a", 4), roundtest.Votes(4, roundtest.Alternating))
	c.node(t, hello(d, "south", "b", 4), malformed(4))
	const of, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ctx := metadata.AppendToOutgoingContext(testkit.Within(t), "traceparent", "00-"+of+"-"+span+"-01")
	_, err := student.ask(ctx, roundtest.VoteRound(spec.Name, 0, 3), nil)
	testkit.Must(t, err)
	_, err = student.ask(ctx, roundtest.VoteRound(spec.Name, 0, 3), nil) // stored, so there is no round
	testkit.Must(t, err)

	refused, _ := student.open(t, refusing, func(s *conclavev1.RunSpec) { s.Teachers = 4 })
	c.node(t, hello(refusing, "north", "a", 4), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{
			roundtest.Addressed(
				&conclavev1.WorkRequest{
					Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Reason: "tell-tale words"}},
				},
				r,
			),
		}
	})
	if _, err := student.ask(testkit.Within(t), roundtest.VoteRound(refused.Name, 0, 3), nil); err == nil {
		t.Fatal("a refused round was released")
	}

	fit, _ := student.open(t, fitted, roundtest.Both(roundtest.FitOf(roundtest.Gaussian(2)), roundtest.Wholly,
		func(s *conclavev1.RunSpec) { s.Plan[0].Count = 1 }))
	c.node(t, hello(fitted, "north", "a", 8), fitting(roundtest.Records(2, 40, 0.3), nil))
	student.mustAsk(t, roundtest.FitRound(fit.Name, 0, question.L2, nil))

	testkit.Must(t, c.stop())
	got := r.Spans()
	var names []string
	keys := []string{"conclave.dataset", "conclave.purpose", "conclave.round", "conclave.run", "conclave.teachers"}
	for _, s := range got {
		parent := "-"
		for _, p := range got {
			if string(p.GetSpanId()) == string(s.GetParentSpanId()) {
				parent = p.GetName()
			}
		}
		names = append(names, s.GetName()+" of "+parent+" "+s.GetStatus().GetMessage())
		if len(s.GetEvents()) != 0 || len(s.GetLinks()) != 0 {
			t.Errorf("%s has events or links", s.GetName())
		}
		for _, a := range s.GetAttributes() {
			if s.GetName() != "round" || !slices.Contains(keys, a.GetKey()) {
				t.Errorf("%s has %s", s.GetName(), a.GetKey())
			}
		}
		if s.GetName() == "round" && s.GetStatus().GetMessage() == "" &&
			(!strings.Contains(s.String(), d) || string(s.GetParentSpanId()) != "\xb7\xadkqi 31") {
			t.Errorf("the round is %v", s)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{
		"collect of round ", "collect of round not_allowed", "dispatch of round ", "dispatch of round ",
		"release of round ", "round of - ", "round of - not_allowed",
	}, names); diff != "" {
		t.Error(diff)
	}
	for _, hidden := range []string{"tell-tale", fit.Name, "north", "south", "127.0.0.1"} {
		if strings.Contains(r.Text(), hidden) {
			t.Errorf("%q is in what the collector got", hidden)
		}
	}
}

// A collector that never answers delays no round, and the server ends.
func TestACollectorHoldsNothingUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{}, traced(t, &tracetest.Collector{Mute: true}))
	student, spec, _ := c.begin(t, nil, roundtest.Votes(8, roundtest.Alternating))
	began := time.Now()
	for round := range uint64(20) {
		student.mustAsk(t, roundtest.VoteRound(spec.Name, round, 2))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("20 rounds took %v", took)
	}
	testkit.Must(t, c.stop())
}
