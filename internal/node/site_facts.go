package node

import (
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Facts counts the site's privacy units. Before the first start there is no key, so the smallest teacher's units come
// from a similar division, and certain is false.
func (s *Site) Facts() (f sitepolicy.Facts, certain bool, err error) {
	d := s.division
	if d == nil {
		if d, err = s.rows.Divide(s.cfg.Rows(), nil); err != nil {
			return f, false, err
		}
	}
	f = factsOf(d.Units)
	f.UnitsBy = unitsBy(s.rows, s.cfg.Rows())
	return f, s.division != nil, nil
}

// unitsBy counts the privacy units of each category of a categorical column. It asks the rows once per column and
// caches the result, because a policy asks before every answer.
func unitsBy(held rows.Rows, c rows.Config) func(column string) (map[string]int, error) {
	var mu sync.Mutex
	known := map[string]map[string]int{}
	return func(name string) (map[string]int, error) {
		mu.Lock()
		defer mu.Unlock()
		if by := known[name]; by != nil {
			return by, nil
		}
		schema := held.Schema()
		at := schema.ColumnIndex(name)
		if at < 0 || schema.Columns[at].ClassCount() == 0 || at == schema.UnitColumn() {
			return nil, fmt.Errorf("column %q is not a categorical column of the schema; use one, or leave out the "+
				"rule",
				name)
		}
		by, err := held.CountUnitsBy(c, at)
		if err == nil {
			known[name] = by
		}
		return by, err
	}
}

// Hello is the hello of the site's node. Its manifest is empty before the first start.
func (s *Site) Hello() *conclavev1.Hello {
	var m *partition.Manifest
	if s.division != nil {
		m = s.division.Manifest
	}
	return helloOf(s.cfg, s.Schema(), m, s.ledger)
}

func helloOf(c Config, schema *partition.Schema, m *partition.Manifest, ledger *ledgerHead) *conclavev1.Hello {
	h := &conclavev1.Hello{
		Protocol: protocol, Dataset: c.Dataset, Site: c.Site, Node: c.Node,
		Teachers: uint32(c.Teachers), SchemaSha256: schema.SHA256, Unit: c.Unit,
		Ledger: ledger.hello(), Overlap: uint32(privacy.Budget{}.WithOverlap(c.Overlap).Overlap),
	}
	if m != nil {
		h.Manifest = m.Fingerprint
	}
	return h
}

// Schema is the schema of the site's table.
func (s *Site) Schema() *partition.Schema { return s.rows.Schema() }
