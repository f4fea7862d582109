package node

import (
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Facts counts the site's privacy units. Before the first start there is no key, and the
// units of the teacher with the fewest are those of a division like the one to come:
// certain is false then.
func (s *Site) Facts() (f sitepolicy.Facts, certain bool, err error) {
	d := s.division
	if d == nil {
		if d, err = s.rows.divide(s.cfg, nil); err != nil {
			return f, false, err
		}
	}
	return factsOf(d.units), s.division != nil, nil
}

// Hello is what the site's node says when it joins. Its manifest is empty before the first
// start.
func (s *Site) Hello() *conclavev1.Hello {
	var m *partition.Manifest
	if s.division != nil {
		m = s.division.manifest
	}
	return helloOf(s.cfg, s.Schema(), m, s.ledger)
}

func helloOf(c Config, schema *partition.Schema, m *partition.Manifest, ledger *ledgerHead) *conclavev1.Hello {
	h := &conclavev1.Hello{
		Protocol: protocol, Dataset: c.Dataset, Site: c.Site, Node: c.Node,
		Teachers: uint32(c.Teachers), SchemaSha256: schema.SHA256, Unit: c.Unit,
		Ledger: ledger.hello(),
	}
	if m != nil {
		h.Manifest = m.Fingerprint
	}
	return h
}

// Schema is that of the site's table.
func (s *Site) Schema() *partition.Schema { return s.rows.Schema() }
