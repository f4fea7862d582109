package masking

import (
	"slices"
	"testing"
)

// What members know of the masks of an answer is all of them where it is their own. Of a third member's it is the mask
// that each shares with it: that of its own seed is left, until it is revealed.
func TestWhatMembersKnowOfMasks(t *testing.T) {
	const entries = 1 << 12
	r := newRun(t, 3, 3, 0)
	terms := r.terms(0, entries, 0, 1, 2)
	sum, answers := r.answer(terms, 0, 1, 2)
	known, others := make([]int64, entries), slices.Clone(answers[0])
	for i, p := range r.parties {
		a := p.runs["r"].attempt
		if i > 0 {
			a.TakeOff("a", others)
		}
		own := slices.Clone(answers[i])
		a.TakeOff(p.site, own)
		checkTotal(t, "the answer of "+p.site, own, int64(i+1), terms.Share, 1)
		AddUp(known, own)
	}
	wantUniform(t, "an answer without the masks shared with others", others)
	revealed := r.reveal(terms, 0, 1, 2)
	addMask(others, [seedBytes]byte(revealed[0].Own), true)
	checkTotal(t, "that answer once it is opened", others, 1, terms.Share, 1)
	terms.Open(sum, sites(0, 1, 2), revealed)
	if !slices.Equal(known, sum) {
		t.Error("what all members know is not what opens")
	}
}
