package service

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// However long the fields of runs are, no message of a list exceeds the receiver's limit.
func TestListsComeInPagesOfBytes(t *testing.T) {
	var all []*conclavev1.RunStatus
	for i := range 5000 {
		all = append(all, &conclavev1.RunStatus{Name: fmt.Sprint(i), Reason: strings.Repeat("x", 600)})
	}
	last := &conclavev1.ListRunsResponse{Budgets: []*conclavev1.DatasetBudget{{Dataset: "d"}}}
	pages, runs, budgets := 0, 0, 0
	testkit.Must(t, sendPages(all, last, func(m *conclavev1.ListRunsResponse) error {
		if size := proto.Size(m); size > listPage+100<<10 {
			t.Errorf("a message has %d bytes", size)
		}
		for _, r := range m.GetRuns() {
			if r.GetName() != fmt.Sprint(runs) {
				t.Fatalf("run %s is number %d of the list", r.GetName(), runs)
			}
			runs++
		}
		pages, budgets = pages+1, budgets+len(m.GetBudgets())
		return nil
	}))
	if pages < 3 || runs != len(all) || budgets != 1 {
		t.Errorf("%d messages with %d runs and %d budgets", pages, runs, budgets)
	}
}

// Connected capacity is counted in teachers, and in a masked run in member sites.
func TestTheQuorumOfARun(t *testing.T) {
	d := round.NewDataset(coordinator.Dataset{Name: "d"}, 0)
	for _, id := range []peer.ID{{Site: "north", Name: "a"}, {Site: "north", Name: "b"}, {Site: "west", Name: "a"}} {
		n := peer.NewNode(&peer.Session{})
		n.ID, n.Teachers = id, 3
		d.Join(n)
	}
	members := []masking.Member{{Site: "east"}, {Site: "north"}, {Site: "south"}}
	for _, c := range []struct {
		run  *spec.Spec
		want *conclavev1.Quorum
	}{
		{&spec.Spec{Quorum: 10}, &conclavev1.Quorum{TeachersNeeded: 10, TeachersLive: 9}},
		{&spec.Spec{Quorum: 10, Masked: &masking.Group{Members: members, Quorum: 2}},
			&conclavev1.Quorum{SitesNeeded: 2, SitesLive: 1}},
	} {
		if got := quorumNow(c.run, d); !proto.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
