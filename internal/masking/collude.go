package masking

// TakeOff removes the masks that the party knows from an answer to the attempt, in place: all masks from its own
// answer, the shared one from a partner's. Nodes never call it. It is what a colluding member can tell others; the
// privacy audit simulates such members.
func (a *Attempt) TakeOff(site string, answer []int64) {
	for _, i := range a.partners {
		switch other := a.terms.Members[i].GetSite(); site {
		case a.party.site:
			addMask(answer, a.seeds[i], site < other)
		case other:
			addMask(answer, a.seeds[i], site < a.party.site)
		}
	}
	if site == a.party.site {
		addMask(answer, a.own, true)
	}
}
