package tabular

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// Options select the rows of a file. The zero value selects all.
type Options struct {
	// Site keeps only the rows of this site, by the column of role site. It has no effect if the schema has no
	// such column.
	Site string
	// From and To select a share of [0,1). A hash of each privacy unit, under a public key, decides whether it is
	// in the share. It hashes the text of the unit column, or the record if there is no such column. Disjoint
	// shares have no unit in common, and shares that cover [0,1) cover the file. 0, 0 means all.
	From, To float64
	// Weights reads an additional column WeightColumn as the weights of synthetic rows; see Table.Weights. If the
	// schema has a column of that name, it is data and this has no effect.
	Weights bool
	// IgnoreUnit reads the unit column as empty, and allows the file to lack it and identifier columns. It is for
	// generated tables, whose rows belong to nobody.
	IgnoreUnit bool
	// Warn is called with unusual properties that are not errors, once for each source. It gets names of columns
	// and no values. It may be nil.
	Warn func(warning string)

	ofPart bool // the source is one part of a table: it may be empty, and the whole table selects rows
}

// check refuses options that make no sense.
func (o *Options) check(s *partition.Schema) error {
	if o.From != 0 || o.To != 0 {
		if !(o.From >= 0 && o.From < o.To && o.To <= 1) { // also true for NaN
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

// byShare reports whether a share excludes rows.
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
