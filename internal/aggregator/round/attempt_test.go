package round

import (
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/masking"
)

// Members that were late or left are omitted from the next attempt if the others are a quorum, and asked again
// otherwise: a server that was itself delayed must not end the run. A member that spoiled an attempt is not asked
// again.
func TestLateMembersAreAskedAgainWhereTheyAreNeeded(t *testing.T) {
	all := []string{"a", "b", "c", "d"}
	for name, c := range map[string]struct {
		late, gone, spoiled int
		next                []string // nil if too few are left
	}{
		"one of four": {late: 1, next: all[1:]}, "two of four": {late: 2, next: all[2:]},
		"three": {late: 3, next: all}, "all": {late: 4, next: all},
		"a liar too":                {late: 2, spoiled: 1, next: []string{"a", "b", "d"}},
		"a liar and one late":       {late: 1, spoiled: 1, next: all[2:]},
		"one that left":             {gone: 1, next: all[1:]},
		"one late, one gone, a lie": {late: 1, gone: 1, spoiled: 1, next: []string{"a", "b", "d"}},
		"liars":                     {spoiled: 3},
	} {
		d, e, parties := maskedAmong(t, all...)
		e.spec.Masked.Quorum = 2
		a := &attempt{owes: map[*peer.Node]bool{}, due: seeds, terms: &masking.Terms{Group: *e.spec.Masked}}
		var live []*peer.Node
		for i, site := range all {
			n := newNode(site, 1)
			permit(e, n, parties[site])
			d.Join(n)
			a.nodes = append(a.nodes, n)
			gone := i >= c.late && i < c.late+c.gone
			if !gone {
				live = append(live, n)
			}
			if gone || i < c.late {
				a.owes[n] = true
			} else if i < c.late+c.gone+c.spoiled {
				a.spoiled = append(a.spoiled, n)
				a.problems = append(a.problems, "a lie")
			}
		}
		if done, err := a.step(live, c.late > 0); done || err == nil {
			t.Errorf("%s: the attempt opens", name)
		}
		if c.late == 0 && c.gone == 0 && len(a.late) > 0 || len(a.late) > c.late+c.gone {
			t.Errorf("%s: late are %q", name, a.late)
		}
		spoiled, late := map[*peer.Node]bool{}, map[string]bool{}
		for _, site := range all[:c.late+c.gone] { // a step handles departures first
			late[site] = true
		}
		a.leaveOut(spoiled, late)
		next, _, err := e.choose(&permits{}, spoiled, late)
		if got := sitesOf(next); !slices.Equal(got, c.next) || (err == nil) != (c.next != nil) {
			t.Errorf("%s: asked are %q, want %q: %v", name, got, c.next, err)
		}
	}
}

// When two members disagree about a tag, nobody else can tell which one lies. A member that disagrees with many is
// excluded and the others stay; a single doubt excludes both.
func TestWhoIsInMostDoubtsIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		doubts map[string][]string
		out    []string
	}{
		"none":               {},
		"wrong tags for all": {map[string][]string{"a": {"c"}, "b": {"c"}, "d": {"c"}}, []string{"c"}},
		"doubts all":         {map[string][]string{"b": {"a", "c", "d"}}, []string{"b"}},
		"one wrong tag":      {map[string][]string{"a": {"d"}}, []string{"a", "d"}},
		"both say so":        {map[string][]string{"a": {"d"}, "d": {"a"}}, []string{"a", "d"}},
		"two liars":          {map[string][]string{"a": {"c", "d"}, "b": {"c", "d"}}, []string{"a", "b", "c", "d"}},
		"it and strangers":   {map[string][]string{"a": {"a", "x", "d"}, "b": {"d"}, "c": {"c", "x"}}, []string{"d"}},
	} {
		a := &attempt{doubts: map[string][]string{}}
		for _, site := range []string{"a", "b", "c", "d"} {
			a.inSum = append(a.inSum, newNode(site, 1))
		}
		for _, n := range a.inSum {
			named := slices.ContainsFunc(c.doubts[n.ID.Site], func(s string) bool { return s != "x" && s != n.ID.Site })
			if a.doubtedBy(n, c.doubts[n.ID.Site]) != named {
				t.Errorf("%s: the doubts of %s", name, n.ID.Site)
			}
		}
		spoiled := map[*peer.Node]bool{}
		a.leaveOut(spoiled, nil)
		for _, n := range a.inSum {
			if spoiled[n] != slices.Contains(c.out, n.ID.Site) {
				t.Errorf("%s: %s is left out: %v", name, n.ID.Site, spoiled[n])
			}
		}
	}
}
