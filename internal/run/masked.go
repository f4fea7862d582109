package run

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Masked is the part of a forecast about masked sums.
type Masked struct {
	// Quorum of the Sites are needed to open a sum, and Colluding of them may collude with the aggregator.
	Sites     int `json:"sites"`
	Quorum    int `json:"quorum"`
	Colluding int `json:"colluding"`
	// NoiseFactor is how many times larger than needed the noise of a sum of all sites is.
	NoiseFactor float64 `json:"noise_factor"`
	// SiteEpsilon is what a site's own ledger is charged if the site opens each round RevealsAtMost times, at the
	// run's delta.
	RevealsAtMost int     `json:"reveals_at_most"`
	SiteEpsilon   float64 `json:"site_epsilon"`
}

// addMasked adds the effects of masks: who sees what, and what else nodes send.
func (f *Forecast) addMasked(g *masking.Group) error {
	if g == nil {
		return nil
	}
	n := len(g.Members)
	most, err := privacy.Running(opened(f.Events), f.Delta)
	if err != nil {
		return err
	}
	f.Masked = &Masked{
		Sites: n, Quorum: g.Quorum, Colluding: g.Colluding, NoiseFactor: g.Surplus(n),
		RevealsAtMost: 1 + masking.Retries, SiteEpsilon: most.Epsilon,
	}
	for i := range f.Leaving {
		what, _, seen := strings.Cut(f.Leaving[i].Content, "; the aggregator sees")
		if seen {
			f.Leaving[i].Content = what + fmt.Sprintf("; with a share of the noise and masks: the aggregator sees "+
				"only the noisy total of at least %d sites", g.Quorum)
		}
	}
	return nil
}

// opened are the events of rounds that a site opens as often as allowed.
func opened(events []privacy.Event) (all []privacy.Event) {
	for range 1 + masking.Retries {
		all = append(all, events...)
	}
	return privacy.Merge(all)
}

// openingMessages describe the messages with which a group member opens its masked answers, one per answer.
func openingMessages(run string, g *masking.Group, times int) []Message {
	lost := slices.Repeat([][]byte{make([]byte, 32)}, len(g.Members)-g.Quorum)
	sized := func(m *conclavev1.WorkRequest) int {
		m.Attempt = math.MaxUint32
		return proto.Size(m)
	}
	return []Message{
		{"agreement", "for each other site in the sum, a tag of the sites in it", times, sized(
			&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Agreed{Agreed: &conclavev1.Agreed{Run: run,
				Round: math.MaxUint32, Tags: slices.Repeat([][]byte{make([]byte, 32)}, len(g.Members)-1)}}})},
		{"seeds", "random seeds of the node's own mask, and of the masks shared with sites that are not in the sum; " +
			"they open only the total", times, sized(&conclavev1.WorkRequest{
			Message: &conclavev1.WorkRequest_Revealed{Revealed: &conclavev1.Revealed{Run: run, Round: math.MaxUint32,
				Own: make([]byte, 32), Lost: lost}}})},
	}
}

// largestSignature is the size of an ECDSA signature on P-521 in ASN.1, and largestIdentity that of its public
// key.
const (
	largestSignature = 141
	largestIdentity  = 158
)

// largestKey is a node's signed key of a masked run, nil without a group.
func largestKey(site string, g *masking.Group) *conclavev1.RunKey {
	if g == nil {
		return nil
	}
	return &conclavev1.RunKey{Site: site, Exchange: make([]byte, 32), Identity: make([]byte, largestIdentity),
		Signature: make([]byte, largestSignature)}
}
