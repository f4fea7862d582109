package certificate

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/masking"
)

// MaskedNote says against whom the figures of a masked run hold. It accompanies them everywhere.
const MaskedNote = "The sums of this run were masked: the aggregator, and the sites that may collude with it, saw " +
	"only noisy totals. epsilon protects against those who see the releases. What the aggregator and colluding " +
	"sites may learn is charged in each site's own ledger, which counts every answer that the site opened; this " +
	"ledger is the aggregator's statement."

// Masked is a certificate's statement about masks. All of it follows from the ledger.
type Masked struct {
	// Quorum of the Sites were needed to open a sum, and Colluding of them may collude with the aggregator.
	Sites     int `json:"sites"`
	Quorum    int `json:"quorum"`
	Colluding int `json:"colluding"`
	// NoiseFactor is the noise of a sum over all sites, as a multiple of the noise that epsilon needs.
	NoiseFactor float64 `json:"noise_factor"`
}

// maskedOf describes a group; nil without one.
func maskedOf(g *masking.Group) *Masked {
	if g == nil {
		return nil
	}
	n := len(g.Members)
	return &Masked{Sites: n, Quorum: g.Quorum, Colluding: g.Colluding, NoiseFactor: g.Surplus(n)}
}

// validate refuses values that no group can have.
func (m *Masked) validate() error {
	if m == nil {
		return nil
	}
	if err := masking.CheckNumbers(m.Sites, m.Quorum, m.Colluding); err != nil {
		return err
	}
	g := masking.Group{Quorum: m.Quorum, Colluding: m.Colluding}
	if factor := g.Surplus(m.Sites); m.NoiseFactor != factor {
		return fmt.Errorf("noise_factor is %v; it must be %v for these sites", m.NoiseFactor, factor)
	}
	return nil
}

func (m *Masked) equal(o *Masked) bool { return m == o || m != nil && o != nil && *m == *o }

// String describes it in words, for reports and errors.
func (m *Masked) String() string {
	if m == nil {
		return "without masks"
	}
	return fmt.Sprintf("masked sums of %d sites; up to %d of them may collude with the aggregator; quorum %d; noise "+
		"factor %.3g", m.Sites, m.Colluding, m.Quorum, m.NoiseFactor)
}
