package runfile

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/partition"
)

// Aggregation says how the answers of sites are added up.
type Aggregation struct {
	// Masked hides the sites' sums from the aggregator (docs/masked.md). It sees only the total with its
	// noise, which the sites draw. It needs two or more sites, and questions that are sums with Gaussian noise.
	Masked bool `yaml:"masked"`
	// Colluding is how many sites may give all they know to the aggregator, while the others' sum stays private. More
	// means more noise: each site adds a share that is enough without that many sites. 0 claims nothing against a
	// site that reads the release.
	Colluding int `yaml:"colluding"`
	// Quorum is the number of sites that a sum needs to be opened: more than half of all sites and the colluding ones
	// together. 0 takes the share that the pipeline's `quorum` gives, and at least that.
	Quorum int `yaml:"quorum"`
	// Members are the sites of a masked run. Default: the sites of a local run.
	Members []Member `yaml:"members"`
}

// Member is a site of a masked run.
type Member struct {
	// Site is the name of the site. Required.
	Site string `yaml:"site"`
	// Key is the SHA-256 of the public key of the site's certificate, in hex. People compare it outside the
	// aggregator; docs/masked.md#fingerprints says how a site shows it. Required.
	Key string `yaml:"key"`
}

// sites is the number of sites of a masked run.
func (s *Spec) sites() int { return cmp.Or(len(s.Aggregation.Members), len(s.Data)) }

// validateAggregation reports what keeps the sites' sums from being masked.
func (s *Spec) validateAggregation() error {
	a := s.Aggregation
	if !a.Masked {
		if len(a.Members) > 0 || a.Quorum != 0 {
			return errors.New("aggregation: members and quorum are for masked sums; set masked: true, or leave them " +
				"out")
		}
		return nil
	}
	var errs []error
	for i, m := range a.Members {
		if err := config.CheckName(m.Site); err != nil {
			errs = append(errs, fmt.Errorf("aggregation.members[%d].site: %w", i, err))
		}
		if _, err := masking.ParseFingerprint(m.Key); err != nil {
			errs = append(errs, fmt.Errorf("aggregation.members[%d].key: %w", i, err))
		}
	}
	if s.sites() == 0 {
		errs = append(errs, errors.New("aggregation.members: none; list the sites and the fingerprints of their "+
			"certificates' keys"))
	}
	return errors.Join(errs...)
}

// quorum is the number of sites that are needed to open a sum.
func (s *Spec) quorum(schema *partition.Schema) int {
	if q := s.Aggregation.Quorum; q != 0 {
		return q
	}
	n := s.sites()
	share, _ := s.Training(schema).Quorum()
	return min(n, max(masking.LeastQuorum(n, s.Aggregation.Colluding), int(math.Ceil(share*float64(n)-1e-9))))
}

// Surplus is the factor by which the noise of sums exceeds the charged noise if all sites take part: 0 without
// masks.
func (s *Spec) Surplus(schema *partition.Schema) float64 {
	if !s.Aggregation.Masked {
		return 0
	}
	g := masking.Group{Quorum: s.quorum(schema), Colluding: s.Aggregation.Colluding}
	return g.Surplus(s.sites())
}

// Group is the group of sites that mask the run's sums, nil without masks.
func (s *Spec) Group(schema *partition.Schema) (*masking.Group, error) {
	if !s.Aggregation.Masked {
		return nil, nil
	}
	g := &masking.Group{Quorum: s.quorum(schema), Colluding: s.Aggregation.Colluding}
	for i, m := range s.Aggregation.Members {
		key, err := masking.ParseFingerprint(m.Key)
		if err != nil {
			return nil, fmt.Errorf("aggregation.members[%d].key: %w", i, err)
		}
		g.Members = append(g.Members, masking.Member{Site: m.Site, Key: key})
	}
	if len(s.Aggregation.Members) == 0 { // the certificates of a local run do not exist yet
		for i, d := range s.Data {
			g.Members = append(g.Members, masking.Member{Site: d.Site, Key: sha256.Sum256([]byte{byte(i)})})
		}
	}
	slices.SortFunc(g.Members, func(a, b masking.Member) int { return strings.Compare(a.Site, b.Site) })
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("aggregation: %w", err)
	}
	return g, nil
}
