package run

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestForecast(t *testing.T) {
	s, err := runfile.Load("../../examples/flchain/run.yaml")
	testkit.Must(t, err)
	schema, err := s.LoadSchema()
	testkit.Must(t, err)
	node := Node{Dataset: "flchain", Site: "north", Node: "1", Teachers: s.Teachers / 2}
	f, err := NewForecast(s, schema, node)
	testkit.Must(t, err)
	if f.Claim.Epsilon > f.Epsilon || f.Claim.Epsilon > f.FilterEpsilon || f.FilterEpsilon > f.Epsilon ||
		f.FilterEpsilon < 0.99*f.Epsilon {
		t.Errorf("claim %v, filter %v, budget %v", f.Claim.Epsilon, f.FilterEpsilon, f.Epsilon)
	}
	budget := privacy.Budget{Epsilon: f.Epsilon, Delta: f.Delta}
	if _, err := budget.Admit(nil, f.Events); err != nil {
		t.Errorf("the budget does not admit the plan: %v", err)
	}
	if asked := f.Events[1].Count; asked != int64(f.Queries) || f.Admitted != asked {
		t.Errorf("%d queries are charged, %d asked, %d admitted", asked, f.Queries, f.Admitted)
	}
	// The bytes of a real message with these votes.
	var votes Message
	for _, m := range f.Leaving {
		if m.Name == "votes" {
			votes = m
		}
	}
	queries := runfile.Section[pategan.Options](s).Queries
	packed := make([]byte, node.Teachers*(queries/8))
	real := proto.Size(&conclavev1.WorkRequest{Attempt: 3, Message: &conclavev1.WorkRequest_Votes{
		Votes: &conclavev1.Votes{Run: s.Name, Round: 1, Teachers: uint32(node.Teachers), Queries: uint32(queries),
			Packed: packed},
	}})
	if votes.Times != f.Rounds || votes.Bytes < real || votes.Bytes > real+8 {
		t.Errorf("votes are forecast as %+v, one message has %d bytes", votes, real)
	}
	node.Teachers = s.Teachers + 1
	if _, err := NewForecast(s, schema, node); err == nil {
		t.Error("a node with more teachers than the run was forecast")
	}
}

// Every mechanism can be forecast, and a plan that cannot run is refused.
func TestForecastOfEveryMechanism(t *testing.T) {
	for _, mechanism := range []pategan.Mechanism{pategan.GNMax, pategan.LNMax, pategan.ConfidentGNMax} {
		s := voteSpec()
		s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-5
		runfile.Section[pategan.Options](s).Mechanism, runfile.Section[pategan.Options](s).Labels = mechanism, 100
		f, err := NewForecast(s, tinySchema(t), Node{Dataset: "d", Site: "s", Node: "1", Teachers: 1})
		if err != nil {
			t.Errorf("%s: %v", mechanism, err)
			continue
		}
		if string(f.Events[1].Kind) != string(mechanism) || math.IsNaN(f.Claim.Epsilon) || f.Claim.Epsilon > f.Epsilon {
			t.Errorf("%s: forecast %+v", mechanism, f)
		}
	}
	s := voteSpec()
	s.Privacy.Epsilon, s.Privacy.Delta, runfile.Section[pategan.Options](s).Noise,
		runfile.Section[pategan.Options](s).Labels = 1, 1e-5, 100, 1000
	f, err := NewForecast(s, tinySchema(t), Node{Teachers: 1})
	if err != nil || f.Admitted >= 1000 || f.Admitted < 100 || f.Events[1].Count != f.Admitted || f.Claim.Epsilon > 1 {
		t.Errorf("noise for part of the labels: %+v (%v)", f, err)
	}
	runfile.Section[pategan.Options](s).Noise = 0.5
	if _, err := NewForecast(s, tinySchema(t), Node{Teachers: 1}); err == nil ||
		!strings.Contains(err.Error(), "pategan.noise") {
		t.Errorf("noise that cannot be drawn: %v", err)
	}
}
