package masking

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// MaxMembers bounds a group: each member makes a tag for each other one, and receives the run keys of all.
const MaxMembers = 200

// Member is a site of a masked run.
type Member struct {
	Site string      `json:"site"`
	Key  Fingerprint `json:"key"` // of its certificate
}

// Group names the sites that mask the sums of a run. In the package's documentation, N is the number of Members, q
// is Quorum and c is Colluding.
type Group struct {
	Members   []Member `json:"members"` // ordered by site
	Quorum    int      `json:"quorum"`
	Colluding int      `json:"colluding"`
}

// MemberOf returns a site with the public key of its certificate.
func MemberOf(site string, public crypto.PublicKey) (Member, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return Member{}, fmt.Errorf("read the key of site %q: %w", site, err)
	}
	return Member{site, sha256.Sum256(der)}, nil
}

// LeastQuorum is the smallest quorum for the given number of members if some may collude. With a smaller one, two
// sums without a common honest member could be opened.
func LeastQuorum(members, colluding int) int { return (members+colluding)/2 + 1 }

// Parse reads and checks a group from a run's spec. Its errors may be sent to anybody.
func Parse(m *conclavev1.Masked) (Group, error) {
	g := Group{Quorum: int(m.GetQuorum()), Colluding: int(m.GetColluding())}
	for _, member := range m.GetMembers() {
		if len(member.GetKey()) != sha256.Size {
			return Group{}, fmt.Errorf("the key of member %q has %d bytes; give the SHA-256 of its certificate's "+
				"public key, %d bytes", member.GetSite(), len(member.GetKey()), sha256.Size)
		}
		g.Members = append(g.Members, Member{member.GetSite(), Fingerprint(member.GetKey())})
	}
	return g, g.Validate()
}

// Wire is the group in the form of a run's spec.
func (g Group) Wire() *conclavev1.Masked {
	m := &conclavev1.Masked{Quorum: uint32(g.Quorum), Colluding: uint32(g.Colluding)}
	for _, member := range g.Members {
		m.Members = append(m.Members, &conclavev1.Member{Site: member.Site, Key: member.Key[:]})
	}
	return m
}

// CheckNumbers reports why the given number of sites, with a quorum and some that may collude, cannot hide
// anything.
func CheckNumbers(n, quorum, colluding int) error {
	switch {
	case n < 2:
		return fmt.Errorf("a masked run of %d sites; the sum of a single site cannot be hidden: use two or more "+
			"members, or ask without masks", n)
	case n > MaxMembers:
		return fmt.Errorf("a masked run of %d sites; the maximum is %d", n, MaxMembers)
	case colluding < 0 || colluding > n-1:
		return fmt.Errorf("colluding is %d of %d sites; use 0 to %d, to leave one honest site", colluding, n,
			n-1)
	case quorum < LeastQuorum(n, colluding) || quorum > n:
		return fmt.Errorf("a quorum of %d of %d sites, with up to %d colluding; use %d to %d: otherwise two sums "+
			"without a common honest site could be opened", quorum, n, colluding, LeastQuorum(n, colluding), n)
	}
	return nil
}

// siteRule is the form of a site's name, which appears in ledgers and on terminals.
var siteRule = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Validate reports why a group cannot hide anything.
func (g Group) Validate() error {
	if err := CheckNumbers(len(g.Members), g.Quorum, g.Colluding); err != nil {
		return err
	}
	keys := map[Fingerprint]string{}
	for i, m := range g.Members {
		switch other, taken := keys[m.Key]; {
		case !siteRule.MatchString(m.Site):
			return fmt.Errorf("member %d of the masked run has the site name %.40q; use 1 to 128 letters, digits, "+
				"dots, dashes or underscores", i+1, m.Site)
		case i > 0 && strings.Compare(g.Members[i-1].Site, m.Site) >= 0:
			return fmt.Errorf("member %q comes after %q; list each site once, in sorted order", m.Site,
				g.Members[i-1].Site)
		case taken:
			return fmt.Errorf("members %q and %q have the same key; each site needs its own certificate", other,
				m.Site)
		}
		keys[m.Key] = m.Site
	}
	return nil
}

// Honest is the smallest number of honest members in a sum: q - c, at least 1.
func (g Group) Honest() int { return max(1, g.Quorum-g.Colluding) }

// Share is each member's share of the noise, as a fraction of the required variance.
func (g Group) Share() float64 { return 1 / float64(g.Honest()) }

// Surplus is the factor by which the noise of a sum with the given number of members is larger than required: each
// member adds a share as if there were [Group.Honest] of them.
func (g Group) Surplus(members int) float64 { return math.Sqrt(float64(members) / float64(g.Honest())) }

// find returns the member of a site.
func (g Group) find(site string) (Member, bool) {
	for _, m := range g.Members {
		if m.Site == site {
			return m, true
		}
	}
	return Member{}, false
}

// Has reports whether a site with a public key (PKIX, DER) is a member.
func (g Group) Has(site string, identity []byte) bool {
	m, ok := g.find(site)
	return ok && m.Key == sha256.Sum256(identity)
}
