package masking

import "slices"

// Members that share a mask are partners. If all members were partners of each other, the work of a node would
// grow with the group. So the members that are asked form a circle, ordered by site, and a member's partners are
// those at most reach places away on either side (a Harary graph).
//
// These are enough, for every choice of members. Of n members that are asked, at least q survive and at most c
// collude, so all but at most c + n - q are honest survivors. Masks of pairs connect them:
//
//   - Two neighbours on the remaining circle are partners, unless at least reach members between them are gone.
//   - Two such gaps would take 2 reach members, and 2 reach > c + n - q. So there is at most one gap, and the rest
//     is at least a chain.
//
// Nobody reveals these masks, and on a connected graph they hide everything but the sum: see the package's
// documentation. The circle depends on the members asked, q and c. All of them are in the terms.

// reach is the largest distance between partners on the circle: half of c + n - q + 1, rounded up.
func (t *Terms) reach() int { return (t.Group.Colluding + len(t.Members) - t.Group.Quorum + 2) / 2 }

// partners returns the indexes of a member's partners, in order.
func (t *Terms) partners(at int) (places []int) {
	n, reach := len(t.Members), t.reach()
	for i := range n {
		if apart := max(i-at, at-i); apart != 0 && min(apart, n-apart) <= reach {
			places = append(places, i)
		}
	}
	return places
}

// lost returns a member's partners that are not in the sum. Survivors and members are both ordered by site.
func (t *Terms) lost(at int, survivors []string) (places []int) {
	for _, i := range t.partners(at) {
		if _, survives := slices.BinarySearch(survivors, t.Members[i].GetSite()); !survives {
			places = append(places, i)
		}
	}
	return places
}
