package cluster

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/console"
)

// certificate is a row of a table, from the authority's register or a connection.
type certificate struct {
	Role, Name, Serial, State, Fingerprint string
	Ends                                   time.Time
	// Newest says that its holder has none that ends later.
	Newest bool
}

// End is when it ends, for people.
func (c certificate) End() string { return console.When(c.Ends.UTC().Format(time.RFC3339)) }

func (c *Cluster) certificatePages() { c.Get("/certificates", c.certificates) }

func (c *Cluster) certificates(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	all, err := c.certificatesOf(s)
	if err != nil {
		return console.View{}, err
	}
	list := console.ListOf(r, all, func(e certificate) string {
		return e.Role + " " + e.Name + " " + e.Serial + " " + e.Fingerprint
	}, func(e certificate, state string) bool { return e.State == state })
	return console.View{Page: "certificates", Title: "Certificates", Events: s.events(), Data: struct {
		List      console.List[certificate]
		Authority bool
		States    []string
	}{list, c.authority != "", []string{
		authority.StateValid, authority.StateSoon, authority.StateExpired, authority.StateRevoked,
	}}}, nil
}

// certificatesOf are the certificates in the authority's register or, without one, those of this person and of
// connected nodes, by their end.
func (c *Cluster) certificatesOf(s *state) (all []certificate, err error) {
	if c.authority != "" {
		issued, err := authority.Inventory(c.authority)
		if err != nil {
			return nil, err
		}
		for _, i := range issued {
			all = append(all, certificate{Role: string(i.Role), Name: i.Name, Serial: i.Serial, State: i.State,
				Fingerprint: i.Fingerprint, Ends: i.NotAfter})
		}
	} else {
		if !c.own.IsZero() {
			all = append(all, certificate{Role: string(c.who.Role), Name: c.who.Name, Ends: c.own})
		}
		for _, n := range s.nodes {
			if ends, err := time.Parse(time.RFC3339, n.GetCertificateEnds()); err == nil {
				all = append(all, certificate{Role: string(certs.RoleNode), Name: n.GetName().GetSite(), Ends: ends})
			}
		}
		for i := range all {
			all[i].State = authority.StateOf(all[i].Ends, time.Now())
		}
	}
	slices.SortStableFunc(all, func(a, b certificate) int { return a.Ends.Compare(b.Ends) })
	newest := map[[2]string]int{}
	for i, e := range all {
		newest[[2]string{e.Role, e.Name}] = i
	}
	for _, i := range newest {
		all[i].Newest = true
	}
	if c.authority == "" { // several nodes of a site share one
		all = slices.CompactFunc(all, func(a, b certificate) bool {
			return cmp.Compare(a.Role+a.Name, b.Role+b.Name) == 0 && a.Ends.Equal(b.Ends)
		})
	}
	return all, nil
}
