package partition

// selectRows applies site and share.
func selectRows(t *Table, name string, o ReadOptions) (*Table, error) {
	s := t.schema
	bySite := o.Site != "" && s.site >= 0
	byShare := o.From != 0 || o.To != 0
	if !bySite && !byShare {
		return t, nil
	}
	var positions []float64
	if byShare {
		positions = sharePositions(t)
	}
	var rows []int
	for row := range t.rows {
		if bySite && s.Columns[s.site].Categories[int(t.Cells(row)[s.site])] != o.Site {
			continue
		}
		if byShare && !(positions[row] >= o.From && positions[row] < o.To) {
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, &InputError{File: name, Problem: "no row belongs to this site and share", Mend: "check site and share"}
	}
	return t.Subset(rows), nil
}
