package masking

import (
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// CheckRevealed checks the form of what a survivor reveals to open the sum.
func (t *Terms) CheckRevealed(site string, survivors []string, r *conclavev1.Revealed) error {
	if lost := len(t.lost(t.at(site), survivors)); len(r.GetOwn()) != seedBytes || len(r.GetLost()) != lost {
		return fmt.Errorf("got a seed of %d bytes and %d seeds of lost members, want %d bytes and %d",
			len(r.GetOwn()), len(r.GetLost()), seedBytes, lost)
	}
	for _, seed := range r.GetLost() {
		if len(seed) != seedBytes {
			return fmt.Errorf("the seed of a lost member has %d bytes, want %d", len(seed), seedBytes)
		}
	}
	return nil
}

// Open removes the masks from the sum of the survivors' answers, in place. revealed holds the survivors'
// revelations in the same order, each checked.
func (t *Terms) Open(sum []int64, survivors []string, revealed []*conclavev1.Revealed) {
	var masks []mask
	for i, site := range survivors {
		masks = append(masks, mask{[seedBytes]byte(revealed[i].GetOwn()), true})
		at := t.at(site)
		for n, lost := range t.lost(at, survivors) {
			// The first member of a pair had added the mask.
			masks = append(masks, mask{[seedBytes]byte(revealed[i].GetLost()[n]), at < lost})
		}
	}
	addMasks(sum, masks)
}

// AddUp adds an answer to a sum modulo 2^64.
func AddUp(sum, answer []int64) {
	for i, v := range answer {
		sum[i] += v
	}
}
