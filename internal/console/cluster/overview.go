package cluster

import (
	"fmt"
	"net/http"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/console"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// endsSoon is how long before its expiry a certificate is shown as a concern.
const endsSoon = 30 * 24 * time.Hour

// concern is something that needs a person.
type concern struct{ State, Path, Name, Why string }

// mostConcerns bounds the concerns of one kind on the overview.
const mostConcerns = 5

func (c *Cluster) overview(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	data := struct {
		Operator            bool
		Waiting, Running    int
		Nodes, Ready, Sites int
		Concerns            []concern
		More                int
		Budgets             []*conclavev1.DatasetBudget
		Recent              []row
	}{Operator: c.operator(), Budgets: s.budgets}
	for _, run := range s.runs {
		switch run.GetState() {
		case conclavev1.RunState_RUN_STATE_WAITING:
			data.Waiting++
		case conclavev1.RunState_RUN_STATE_RUNNING:
			data.Running++
		}
	}
	for _, run := range s.runs[:min(len(s.runs), 8)] {
		data.Recent = append(data.Recent, rowOf(run))
	}
	if c.operator() {
		sites := map[string]bool{}
		kinds := map[conclavev1.NodeState]int{}
		for _, n := range s.nodes {
			sites[n.GetName().GetSite()] = true
			data.Nodes++
			if needsNothing(n.GetState()) {
				data.Ready++
				continue
			}
			if kinds[n.GetState()]++; kinds[n.GetState()] > mostConcerns {
				data.More++
				continue
			}
			data.Concerns = append(data.Concerns, concern{
				nodeState(n.GetState()), sitePath(n.GetName().GetSite()), "node " + nodeName(n), n.GetReason(),
			})
		}
		data.Sites = len(sites)
		ending, more, err := c.ending(s)
		if err != nil {
			return console.View{}, err
		}
		data.Concerns, data.More = append(data.Concerns, ending...), data.More+more
	}
	return console.View{Page: "overview", Title: "Overview", Events: s.events(), Data: data}, nil
}

// ending lists the certificates that end soon.
func (c *Cluster) ending(s *state) (all []concern, more int, err error) {
	certificates, err := c.certificatesOf(s)
	joined := map[string]bool{} // sites with their own certificate, which no longer need their kit's
	for _, e := range certificates {
		joined[e.Name] = joined[e.Name] || e.Role == string(certs.RoleNode)
	}
	for _, e := range certificates {
		left := time.Until(e.Ends)
		if e.Role == string(certs.RoleJoiner) && joined[e.Name] {
			continue
		}
		if e.State == authority.StateRevoked || left > endsSoon || left < 0 && e.Serial != "" && !e.Newest {
			continue
		}
		if len(all) == mostConcerns {
			more++
			continue
		}
		state, why := authority.StateSoon, "ends "+console.When(e.Ends.UTC().Format(time.RFC3339))
		if left < 0 {
			state, why = authority.StateExpired, "ended "+console.When(e.Ends.UTC().Format(time.RFC3339))
		}
		all = append(all, concern{state, "/certificates", fmt.Sprintf("certificate of %s %s", e.Role, e.Name), why})
	}
	return all, more, err
}
