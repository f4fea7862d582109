package tabular

import "github.com/conclave-dp/conclave/partition"

// selectRows applies site and share.
func selectRows(t *partition.Table, name string, o Options) (*partition.Table, error) {
	s := t.Schema()
	bySite := o.Site != "" && s.SiteColumn() >= 0
	byShare := o.From != 0 || o.To != 0
	if !bySite && !byShare {
		return t, nil
	}
	var positions []float64
	if byShare {
		positions = partition.SharePositions(t)
	}
	var rows []int
	for row := range t.Len() {
		if bySite && s.Columns[s.SiteColumn()].Categories[int(t.Cells(row)[s.SiteColumn()])] != o.Site {
			continue
		}
		if byShare && !(positions[row] >= o.From && positions[row] < o.To) {
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, &partition.InputError{File: name, Problem: "no row belongs to this site and share",
			Fix: "check site and share"}
	}
	return t.Subset(rows), nil
}
