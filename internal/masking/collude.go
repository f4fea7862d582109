package masking

// TakeOff takes the masks that the party knows off an answer to the attempt, in place: off its own all of them, off
// that of a partner the one that the two share. No node does this. It is what a member can tell those with whom
// it colludes; the privacy audit plays members that do.
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
