package node

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
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
	f = factsOf(d.units)
	f.UnitsBy = s.rows.unitsBy(s.cfg)
	return f, s.division != nil, nil
}

// unitsBy counts the privacy units that have each category of each categorical column. A unit with records of several
// categories counts for each of them; an empty cell is no category.
func unitsBy(table *partition.Table, unit string) func(column string) (map[string]int, error) {
	schema := table.Schema()
	counts := map[string]map[string]int{}
	of, units := make([]int, table.Len()), map[string]int{}
	for row := range of {
		of[row] = row
		if unit != partition.UnitRecord {
			u, known := units[table.Unit(row)]
			if !known {
				u = len(units)
				units[table.Unit(row)] = u
			}
			of[row] = u
		}
	}
	for i := range schema.Columns {
		column := &schema.Columns[i]
		categorical := column.Kind == partition.Categorical || column.Kind == partition.Binary
		if !categorical || column.Role == partition.RoleUnit {
			continue
		}
		type counted struct {
			unit int
			cell float64
		}
		seen, by := map[counted]bool{}, map[string]int{}
		for row, u := range of {
			cell := table.Cells(row)[i]
			if here := (counted{u, cell}); !math.IsNaN(cell) && !seen[here] {
				by[column.CellText(cell)]++
				if unit != partition.UnitRecord {
					seen[here] = true
				}
			}
		}
		counts[column.Name] = by
	}
	return func(column string) (map[string]int, error) {
		by, known := counts[column]
		if !known {
			return nil, fmt.Errorf("column %q is no categorical column of the schema; name one, or leave the rule out",
				column)
		}
		return by, nil
	}
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
		Ledger: ledger.hello(), Overlap: uint32(privacy.Budget{}.WithOverlap(c.Overlap).Overlap),
	}
	if m != nil {
		h.Manifest = m.Fingerprint
	}
	return h
}

// Schema is that of the site's table.
func (s *Site) Schema() *partition.Schema { return s.rows.Schema() }
