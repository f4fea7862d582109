package tabular

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// Options choose the rows of a file. The zero value takes them all.
type Options struct {
	// Site keeps only the rows whose column of role site says so. It has no
	// effect when the schema has no such column.
	Site string
	// From and To are a share of [0,1): a hash of each privacy unit (the unit
	// column's text where the schema has one, else the record) under a key
	// that everybody knows decides whether it is in. Shares that do not
	// overlap have no unit in common, and shares that cover [0,1) cover the
	// file. 0, 0 means all.
	From, To float64
	// Weights takes a column WeightColumn beside the schema's for the weights of
	// synthetic rows; see Table.Weights. Where the schema has a column of that
	// name it is data, and this has no effect.
	Weights bool
	// IgnoreUnit reads the unit column as empty and lets the file lack it and columns of identifiers, for
	// generated tables, whose rows belong to nobody.
	IgnoreUnit bool
	// Warn is told what is odd and no error, once for a source: names of columns, no values. nil tells nobody.
	Warn func(warning string)

	ofPart bool // of a table: there may be no row, and which ones are chosen is for the whole table
}

// check refuses options that cannot be meant.
func (o *Options) check(s *partition.Schema) error {
	if o.From != 0 || o.To != 0 {
		if !(o.From >= 0 && o.From < o.To && o.To <= 1) { // false for NaN, too
			return errors.New("a share must lie in [0,1] and not be empty; correct the share")
		}
	}
	if o.Site != "" && s.SiteColumn() >= 0 {
		c := &s.Columns[s.SiteColumn()]
		if !slices.Contains(c.Categories, o.Site) {
			return fmt.Errorf("site %q is not a category of column %q; use one of: %s",
				o.Site, c.Name, strings.Join(c.Categories, ", "))
		}
	}
	return nil
}

// byShare is whether a share leaves rows out.
func (o *Options) byShare() bool { return o.From != 0 || o.To != 0 && o.To != 1 }

// selectRows applies site and share.
func selectRows(t *partition.Table, name string, o Options) (*partition.Table, error) {
	s := t.Schema()
	bySite := o.Site != "" && s.SiteColumn() >= 0
	byShare := o.byShare()
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
		return nil, errNoRow(name)
	}
	return t.Subset(rows), nil
}
