package node

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Facts counts the site's privacy units. Before the first start there is no key, and the
// units of the teacher with the fewest are those of a division like the one to come:
// certain is false then.
func (s *Site) Facts() (f sitepolicy.Facts, certain bool, err error) {
	a := s.assignment
	if a == nil {
		if a, err = s.tryDivide(); err != nil {
			return f, false, err
		}
	}
	for _, units := range a.Units {
		f.Units += units
	}
	f.LeastUnits = slices.Min(a.Units)
	return f, s.manifest != nil, nil
}

// Hello is what the site's node says when it joins. Its manifest is empty before the first
// start.
func (s *Site) Hello() *conclavev1.Hello {
	return helloOf(s.cfg, s.table.Schema(), s.manifest, s.ledger)
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
func (s *Site) Schema() *partition.Schema { return s.table.Schema() }
