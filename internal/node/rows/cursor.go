package rows

import (
	"context"
	"math"
	"sync"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// byCursor is rows of a database that are read for each question.
type byCursor struct {
	*postgres.Cursor
	units int
	key   partition.Key // of sum
	sum   *partition.DataSum
}

func (r *byCursor) Len() int { return r.sum.Rows() }

// cursor reads the rows once: each cell is checked, and the units are counted.
func (c Config) cursor(schema *partition.Schema, o tabular.Options) (_ Rows, err error) {
	r := new(byCursor)
	ctx := context.Background() // sql.timeout ends it
	if r.Cursor, err = postgres.OpenCursor(ctx, schema, c.SQL, o, c.Unit != partition.UnitRecord); err != nil {
		return nil, err
	}
	if r.key, err = c.keyIfAny(); err != nil {
		return nil, err
	}
	if r.units, r.sum, err = r.CountUnits(ctx, r.key); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *byCursor) Divide(c Config, key *partition.Key) (*Division, error) {
	d, err := c.undivided(r.units)
	if err != nil || key == nil {
		return d, err
	}
	if *key != r.key {
		if _, r.sum, err = r.CountUnits(context.Background(), *key); err != nil {
			return nil, err
		}
		r.key = *key
	}
	d.Manifest = c.manifest(r.Schema(), r.units, *key, r.sum)
	return d, nil
}

func (r *byCursor) Site(p *question.Public, d *Division, c Config) *question.Site {
	return question.NewStreamedSite(p, r.Held(r.key, r.sum), nil, r.units, c.State)
}

// CountUnitsBy relies on all rows of a unit being in one block.
func (r *byCursor) CountUnitsBy(_ Config, column int) (map[string]int, error) {
	var mu sync.Mutex
	by := map[string]int{}
	err := r.Held(r.key, r.sum).Blocks(context.Background(), func(b *partition.Block) error {
		mu.Lock()
		defer mu.Unlock()
		seen := map[float64]bool{}
		for row := range b.Len() {
			if b.Nth == nil || b.Nth[row] == 0 {
				clear(seen)
			}
			if cell := b.Cells(row)[column]; !math.IsNaN(cell) && !seen[cell] {
				seen[cell] = true
				by[r.Schema().Columns[column].CellText(cell)]++
			}
		}
		return nil
	})
	return by, err
}
