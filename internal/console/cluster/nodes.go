package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/report/text"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// node is a node in a table.
type node struct {
	*conclavev1.NodeStatus
	Site, Node, Dataset, StateText, Path string
}

func nodeOf(n *conclavev1.NodeStatus) node {
	name := n.GetName()
	return node{n, name.GetSite(), name.GetNode(), name.GetDataset(), nodeState(n.GetState()), sitePath(name.GetSite())}
}

func nodeName(n *conclavev1.NodeStatus) string {
	return n.GetName().GetSite() + "/" + n.GetName().GetNode()
}

func sitePath(site string) string { return "/nodes/" + url.PathEscape(site) }

func nodeState(s conclavev1.NodeState) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.String(), "NODE_STATE_")), "_", " ")
}

// needsNothing reports whether a node needs no action.
func needsNothing(s conclavev1.NodeState) bool {
	return s == conclavev1.NodeState_NODE_STATE_READY || s == conclavev1.NodeState_NODE_STATE_ANSWERING
}

func nodeStates() (names []string) {
	for s := conclavev1.NodeState_NODE_STATE_BANNED; s <= conclavev1.NodeState_NODE_STATE_READY; s++ {
		names = append(names, nodeState(s))
	}
	return names
}

func (c *Cluster) nodePages() {
	c.Get("/nodes", c.nodes)
	c.Get("/nodes/{site}", c.site)
	c.Post("/nodes/{site}/revoke", c.revoke)
}

func (c *Cluster) nodes(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	list := console.ListOf(r, s.nodes, func(n *conclavev1.NodeStatus) string {
		return strings.Join([]string{nodeName(n), n.GetName().GetDataset(), n.GetSoftware(), n.GetReason()}, " ")
	}, func(n *conclavev1.NodeStatus, state string) bool { return nodeState(n.GetState()) == state })
	data := struct {
		List   console.List[*conclavev1.NodeStatus]
		Rows   []node
		States []string
	}{List: list, States: nodeStates()}
	for _, n := range list.Rows {
		data.Rows = append(data.Rows, nodeOf(n))
	}
	return console.View{Page: "nodes", Title: "Sites and nodes", Events: s.events(), Data: data}, nil
}

func (c *Cluster) site(r *http.Request) (console.View, error) {
	site := r.PathValue("site")
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	data := struct {
		Site         string
		Nodes        []node
		Certificates []certificate
		Authority    bool
		Revocable    bool
		Reasons      []string
	}{Site: site, Authority: c.authority != "", Reasons: certs.Reasons()}
	for _, n := range s.nodes {
		if n.GetName().GetSite() == site {
			data.Nodes = append(data.Nodes, nodeOf(n))
		}
	}
	all, err := c.certificatesOf(s)
	if err != nil {
		return console.View{}, err
	}
	for _, e := range all {
		if e.Role == string(certs.RoleNode) && e.Name == site {
			data.Certificates = append(data.Certificates, e)
			data.Revocable = data.Revocable || e.State == authority.StateValid || e.State == authority.StateSoon
		}
	}
	if len(data.Nodes) == 0 && len(data.Certificates) == 0 {
		return console.View{}, console.NotFound("there is no site %q", site)
	}
	return console.View{Page: "site", Title: "Site " + site, Events: s.events(), Data: data}, nil
}

// revoke revokes the certificates of a site, as `conclave site revoke` does.
func (c *Cluster) revoke(r *http.Request) (to, say string, err error) {
	site := r.PathValue("site")
	to = sitePath(site)
	if c.authority == "" {
		return to, "", fmt.Errorf("the console was started without --authority")
	}
	if r.PostFormValue("confirm") != site {
		return to, "", fmt.Errorf("to revoke the certificates of %s, type its name", site)
	}
	if err := context.Cause(r.Context()); err != nil {
		return to, "", err
	}
	revoked, err := authority.Revoke(c.authority, authority.Revocation{
		Name: site, Role: certs.RoleNode, Reason: r.PostFormValue("reason"),
	})
	if err != nil {
		return to, "", err
	}
	c.cache.expire("")
	return to, fmt.Sprintf("Revoked %s of %s. Copy %s to the tls.revoked file of the aggregators, then of nodes and "+
		"students; until then nothing changes.", text.Several(len(revoked), "certificate"), site,
		certs.RevokedFile(c.authority)), nil
}
