package masking

// TakeOff takes the masks that the party knows off an answer to the attempt, in place: off its own all of them, off
// that of another member the one that the two share. No node does this. It is what a member can tell those with whom
// it colludes; the privacy audit plays members that do.
func (a *Attempt) TakeOff(site string, answer []int64) {
	for i, m := range a.terms.Members {
		switch other := m.GetSite(); {
		case site == a.party.site && other != site:
			addMask(answer, a.seeds[i], site < other)
		case site == other && site != a.party.site:
			addMask(answer, a.seeds[i], site < a.party.site)
		}
	}
	if site == a.party.site {
		addMask(answer, a.own, true)
	}
}
