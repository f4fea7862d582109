package rows

import (
	"context"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// inDatabase is rows that a database counts.
type inDatabase struct{ *postgres.Pushed }

func (r inDatabase) Len() int { return r.Rows() }

// push lets the database check each cell.
func (c Config) push(schema *partition.Schema, o tabular.Options) (Rows, error) {
	ctx := context.Background() // sql.timeout ends it
	rows, err := postgres.OpenPushed(ctx, schema, c.SQL, o, c.Unit != partition.UnitRecord)
	if err == nil {
		err = rows.Check(ctx)
	}
	if err != nil {
		return nil, err
	}
	return inDatabase{rows}, nil
}

func (r inDatabase) Divide(c Config, key *partition.Key) (*Division, error) {
	d, err := c.undivided(r.Units())
	if err != nil || key == nil {
		return d, err
	}
	if d.sum, err = r.SumRows(context.Background(), key.ForDatabase()); err != nil {
		return nil, err
	}
	d.key, d.Manifest = *key, c.manifest(r.Schema(), r.Units(), *key, partition.CountedSum(d.sum, r.Rows()))
	return d, nil
}

func (r inDatabase) Site(p *question.Public, d *Division, c Config) *question.Site {
	return question.NewPushedSite(p, r.Units(), c.State, r.Counting(d.key.ForDatabase(), d.sum))
}

func (r inDatabase) CountUnitsBy(_ Config, column int) (map[string]int, error) {
	return r.UnitsBy(context.Background(), column)
}
