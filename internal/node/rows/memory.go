package rows

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
)

// InMemory is rows in memory.
type InMemory struct{ *partition.Table }

func (r InMemory) Divide(c Config, key *partition.Key) (*Division, error) {
	d, by := new(Division), key
	var err error
	if by == nil {
		thrown, err := partition.NewKey()
		if err != nil {
			return nil, err
		}
		by = &thrown
	}
	if d.of, err = partition.Assign(*by, r.Table, c.Teachers, c.Unit); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	if d.Units = d.of.Units; key != nil {
		d.Manifest, err = partition.BuildManifest(*key, c.Dataset, c.Site, c.Node, r.Table, c.Teachers, c.Unit)
	}
	return d, err
}

func (r InMemory) Site(p *question.Public, d *Division, c Config) *question.Site {
	return question.NewSite(p, r.Table, d.of, c.Unit, c.State)
}

func (r InMemory) CountUnitsBy(c Config, column int) (map[string]int, error) {
	type counted struct {
		unit string
		cell float64
	}
	seen, by := map[counted]bool{}, map[string]int{}
	for row := range r.Table.Len() {
		cell := r.Cells(row)[column]
		here := counted{r.Unit(row), cell}
		if math.IsNaN(cell) || seen[here] {
			continue
		}
		if c.Unit != partition.UnitRecord {
			seen[here] = true
		}
		by[r.Schema().Columns[column].CellText(cell)]++
	}
	return by, nil
}
