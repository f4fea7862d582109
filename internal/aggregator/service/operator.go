package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	// mostListed bounds the nodes in one response, and mostRuns the runs named for each.
	mostListed = 500
	mostRuns   = 20
	// stalledAfter is how long a node may take to answer before it counts as stalled. States are no more precise,
	// because the time of a node's computation depends on its records.
	stalledAfter = time.Minute
)

// operators serves the OperatorService.
type operators struct {
	rpc.UnimplementedOperatorServiceServer
	Options
	bans *peer.Bans
}

// ListNodes reports the state of the nodes of one dataset, or of all.
func (s *operators) ListNodes(ctx context.Context, q *conclavev1.ListNodesRequest) (r *conclavev1.ListNodesResponse,
	err error) {
	if q.GetLimit() > mostListed {
		return nil, fault.Invalidf("limit is %d; the maximum is %d nodes", q.GetLimit(), mostListed)
	}
	if q.GetDataset() != "" {
		if _, err := s.Rounds.Dataset(q.GetDataset()); err != nil {
			return nil, err
		}
	}
	err = s.listing.one(ctx, peer.SessionOf(ctx).Identity.String(), func() error {
		r, err = s.list(ctx, q, cmp.Or(int(q.GetLimit()), mostListed))
		return err
	})
	return r, err
}

func (s *operators) list(ctx context.Context, q *conclavev1.ListNodesRequest, limit int) (
	*conclavev1.ListNodesResponse, error) {
	var names []string
	for name := range s.Rounds.Datasets {
		if (q.GetDataset() == "" || q.GetDataset() == name) && name >= q.GetAfter().GetDataset() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	r := &conclavev1.ListNodesResponse{}
	for _, name := range names {
		d := s.Rounds.Datasets[name]
		admitted, err := s.Store.Nodes(ctx, name)
		if err != nil {
			return nil, err
		}
		// etcd sorts them by escaped names.
		slices.SortFunc(admitted, func(a, b coordinator.Node) int {
			return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Name, b.Name))
		})
		if after := q.GetAfter(); after.GetDataset() == name {
			admitted = slices.DeleteFunc(admitted, func(n coordinator.Node) bool {
				return cmp.Or(strings.Compare(n.Site, after.GetSite()), strings.Compare(n.Name, after.GetNode())) <= 0
			})
		}
		left := limit - len(r.Nodes)
		r.More = len(admitted) > left
		admitted = admitted[:min(len(admitted), left)]
		live, unanswered := map[peer.ID]*peer.Node{}, d.Unanswered(time.Now())
		for _, n := range d.Live() {
			live[n.ID] = n
		}
		for _, n := range admitted {
			id := peer.ID{Site: n.Site, Name: n.Name}
			r.Nodes = append(r.Nodes, s.status(d, n, live[id], unanswered[id]))
		}
		if r.More {
			break
		}
	}
	return r, nil
}

// status is the state of a node; live is nil if it is not connected.
func (s *operators) status(d *round.Dataset, n coordinator.Node, live *peer.Node, owes peer.Unanswered) (
	st *conclavev1.NodeStatus) {
	id := peer.ID{Site: n.Site, Name: n.Name}
	st = &conclavev1.NodeStatus{
		Name:     &conclavev1.NodeName{Dataset: n.Dataset, Site: n.Site, Node: n.Name},
		Teachers: n.Teachers, State: conclavev1.NodeState_NODE_STATE_READY,
	}
	if live != nil {
		st.Software = live.Software
		st.CertificateEnds = minute(live.Session.Expires())
	}
	for _, o := range []peer.Offender{{Site: n.Site}, {Site: n.Site, Dataset: n.Dataset, Node: n.Name}} {
		if err := s.bans.Check(o); err != nil {
			st.State, st.Reason = conclavev1.NodeState_NODE_STATE_BANNED, err.Error()
			return st
		}
	}
	if live == nil {
		st.State = conclavev1.NodeState_NODE_STATE_NOT_CONNECTED
		st.Reason = "it has not connected since this aggregator became the leader; its site should start it, or read " +
			"its log"
		if gone, seen := d.Departed(id); seen {
			st.Reason, st.Since = fault.Clean(gone.Why), minute(gone.At)
		}
		return st
	}
	judge(st, live.Unpermitted(), owes, time.Now())
	return st
}

// judge sets the state of a connected node.
func judge(st *conclavev1.NodeStatus, runs []peer.Unpermitted, owes peer.Unanswered, now time.Time) {
	worse := func(state conclavev1.NodeState, since time.Time, format string, args ...any) {
		if state < st.State {
			st.State, st.Reason, st.Since = state, fault.Clean(fmt.Sprintf(format, args...)), minute(since)
		}
	}
	asked := func(what, run string, since time.Time) {
		if now.Sub(since) >= stalledAfter {
			worse(conclavev1.NodeState_NODE_STATE_STALLED, since, "it was asked %s run %s and has not answered; its "+
				"site should read its log, and restart it if it hangs", what, run)
			return
		}
		worse(conclavev1.NodeState_NODE_STATE_ANSWERING, since, "it was asked %s run %s", what, run)
	}
	if !owes.Since.IsZero() {
		asked("a round of", owes.Run, owes.Since)
	}
	for _, r := range runs {
		switch r.Is {
		case peer.Asked:
			asked("for a permit for", r.Run, r.Since)
			continue
		case peer.Undecided:
			worse(conclavev1.NodeState_NODE_STATE_WAITS_FOR_APPROVAL, r.Since, "run %s %s", r.Run, r.Why)
		case peer.Denied:
			worse(conclavev1.NodeState_NODE_STATE_REFUSES, r.Since, "run %s: %s", r.Run, r.Why)
		}
		if len(st.Runs) < mostRuns {
			st.Runs = append(st.Runs, &conclavev1.NodeRun{
				Run: r.Run, Refused: r.Is == peer.Denied, Reason: fault.Clean(r.Why),
			})
		}
	}
}

// minute truncates a time to its minute. Nothing shared is more precise.
func minute(t time.Time) string { return t.UTC().Truncate(time.Minute).Format(time.RFC3339) }

// softwareOf is the software that a peer reports, as Go's gRPC sends it: a name, a slash and a version, before gRPC's
// own.
func softwareOf(ctx context.Context) string {
	agent := strings.Join(metadata.ValueFromIncomingContext(ctx, "user-agent"), " ")
	own, _, ok := strings.Cut(agent, " grpc-go/")
	if !ok {
		return ""
	}
	return fault.Word(strings.ReplaceAll(own, "/", " "))
}
