package masking

import "slices"

// Members that share a mask are partners. If each were the partner of each other one, the work of a node would grow
// with the group. So the members that are asked stand in a circle, in the order of their sites, and the partners of one
// are those up to reach places from it, on either side (a Harary graph).
//
// Those are enough, whoever they are. Of n members asked q or more survive, and c or fewer collude: all but c + n - q
// are honest survivors, or more. They are connected by masks that two of them share:
//
//   - Two that follow each other on what is left of the circle are partners, unless reach members or more between them
//     are gone.
//   - Two such gaps would take 2 reach members, and 2 reach > c + n - q. So there is one or none, and what is left is a
//     chain at least.
//
// Nobody reveals these masks, and on a connected graph they leave nothing but the sum: see the package's documentation.
// The circle follows from the members asked, q and c. All of that is in the terms.

// reach is how far the partners of a member are from it on the circle: half of c + n - q + 1, rounded up.
func (t *Terms) reach() int { return (t.Group.Colluding + len(t.Members) - t.Group.Quorum + 2) / 2 }

// partners are the places among the members of the partners of one, in order.
func (t *Terms) partners(at int) (places []int) {
	n, reach := len(t.Members), t.reach()
	for i := range n {
		if apart := max(i-at, at-i); apart != 0 && min(apart, n-apart) <= reach {
			places = append(places, i)
		}
	}
	return places
}

// lost are the partners of a member that are not in the sum. Survivors are in the order of sites, as members are.
func (t *Terms) lost(at int, survivors []string) (places []int) {
	for _, i := range t.partners(at) {
		if _, survives := slices.BinarySearch(survivors, t.Members[i].GetSite()); !survives {
			places = append(places, i)
		}
	}
	return places
}
