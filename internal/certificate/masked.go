package certificate

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/masking"
)

// MaskedNote says for whom the figures of a masked run are. It stands wherever they are shown.
const MaskedNote = "This run was summed under masks: the aggregator, together with as many sites as may collude, saw " +
	"totals with their noise and nothing else. epsilon is against those who see releases. Against the aggregator and " +
	"sites that collude with it each site's own ledger counts, which charges every attempt at a round: this " +
	"ledger is the aggregator's word."

// Masked is what a certificate says of masks. All of it follows from the ledger.
type Masked struct {
	// Sums of Quorum of the Sites, or more, were opened, of which Colluding may collude with the aggregator.
	Sites     int `json:"sites"`
	Quorum    int `json:"quorum"`
	Colluding int `json:"colluding"`
	// NoiseFactor is by how much the noise of a sum of all sites is larger than epsilon needs.
	NoiseFactor float64 `json:"noise_factor"`
}

// maskedOf is what a certificate says of a group, nil of none.
func maskedOf(g *masking.Group) *Masked {
	if g == nil {
		return nil
	}
	n := len(g.Members)
	return &Masked{Sites: n, Quorum: g.Quorum, Colluding: g.Colluding, NoiseFactor: g.Surplus(n)}
}

// validate refuses what no group could be.
func (m *Masked) validate() error {
	if m == nil {
		return nil
	}
	if err := masking.CheckNumbers(m.Sites, m.Quorum, m.Colluding); err != nil {
		return err
	}
	g := masking.Group{Quorum: m.Quorum, Colluding: m.Colluding}
	if factor := g.Surplus(m.Sites); m.NoiseFactor != factor {
		return fmt.Errorf("noise_factor is %v; it is %v with these sites", m.NoiseFactor, factor)
	}
	return nil
}

func (m *Masked) equal(o *Masked) bool { return m == o || m != nil && o != nil && *m == *o }

// String says it in words, for reports and errors.
func (m *Masked) String() string {
	if m == nil {
		return "without masks"
	}
	return fmt.Sprintf("summed under masks of %d sites, of which %d may collude with the aggregator, with a quorum of "+
		"%d; noise factor %.3g", m.Sites, m.Colluding, m.Quorum, m.NoiseFactor)
}
