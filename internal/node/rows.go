package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/grouping"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Rows are a node's records, read once and checked: in memory, on the disk where the node streams, or in a database
// that counts.
type Rows interface {
	Schema() *partition.Schema
	Len() int // private
	// divide divides the units among the node's teachers by a key, nil for any.
	divide(c Config, key *partition.Key) (*division, error)
	site(p *question.Public, d *division, c Config) *question.Site
	// countUnits counts the privacy units that have each category of a categorical column. A unit with records of
	// several categories counts for each of them; an empty cell is no category. It may read all rows.
	countUnits(c Config, column int) (map[string]int, error)
}

// division is how units are divided.
type division struct {
	units    []int // of each teacher; where the node holds no records, of all at once
	of       *partition.Assignment
	manifest *partition.Manifest // nil for any key
	// key and sum are those of rows in a database.
	key partition.Key
	sum postgres.Sum
}

// Read reads the node's rows and checks each cell. warn is told what is odd and no error; it may be nil.
func (c Config) Read(schema *partition.Schema, warn func(string)) (Rows, error) {
	o := tabular.Options{Site: c.Site, From: c.Share[0], To: c.Share[1], Warn: warn}
	switch {
	case c.SQL.Pushdown:
		return c.push(schema, o)
	case c.Stream && c.SQL.Set():
		return c.cursor(schema, o)
	case c.Stream:
		return c.stream(schema, o)
	}
	var table *partition.Table
	var err error
	if c.SQL.Set() {
		table, err = postgres.Read(context.Background(), schema, c.SQL, o) // ends by sql.timeout
	} else {
		table, err = tabular.Read(schema, c.Data, o)
	}
	if err != nil {
		return nil, err
	}
	return inMemory{table}, nil
}

// inMemory are rows in memory.
type inMemory struct{ *partition.Table }

func (r inMemory) divide(c Config, key *partition.Key) (*division, error) {
	d, by := new(division), key
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
	if d.units = d.of.Units; key != nil {
		d.manifest, err = partition.BuildManifest(*key, c.Dataset, c.Site, c.Node, r.Table, c.Teachers, c.Unit)
	}
	return d, err
}

func (r inMemory) site(p *question.Public, d *division, c Config) *question.Site {
	return question.NewSite(p, r.Table, d.of, c.Unit, c.State)
}

func (r inMemory) countUnits(c Config, column int) (map[string]int, error) {
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

// onDisk are rows that are read for each question.
type onDisk struct {
	*tabular.Stream
	schema *partition.Schema
	rows   int
	places *grouping.Places // nil where each record is a unit
	key    partition.Key    // of sum
	sum    *partition.DataSum
}

func (r *onDisk) Schema() *partition.Schema { return r.schema }
func (r *onDisk) Len() int                  { return r.rows }

// stream opens the table and reads it once: each cell is checked, and the records of each unit are counted.
func (c Config) stream(schema *partition.Schema, o tabular.Options) (Rows, error) {
	if err := schema.CheckUnit(c.Unit); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	table, err := tabular.OpenStream(schema, c.Data, o, c.scratch())
	if err != nil {
		return nil, err
	}
	r := &onDisk{Stream: table, schema: schema}
	if r.key, err = c.keyIfAny(); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var groups *grouping.Grouper
	of := func(*tabular.Block) error { return nil }
	if c.Unit != partition.UnitRecord {
		key, err := partition.NewKey() // which nobody can make two units alike for
		if err != nil {
			return nil, err
		}
		groups = grouping.New(ctx, c.scratch())
		of = func(b *tabular.Block) error { return groups.Add(b.Numbers, partition.UnitDigests(key, b.Table)) }
	}
	if r.sum, err = r.add(ctx, r.key, of); err != nil {
		return nil, err
	}
	if r.rows = r.sum.Rows(); groups != nil {
		r.places, err = groups.Places()
	}
	return r, err
}

// keyIfAny is the partition key, another one before the first start: where there is one, a start needs one reading.
func (c Config) keyIfAny() (key partition.Key, err error) {
	switch _, err := os.Stat(keyPath(c.State)); {
	case err == nil:
		return partition.LoadOrCreateKey(keyPath(c.State))
	case !errors.Is(err, fs.ErrNotExist):
		return key, fmt.Errorf("look for the partition key: %w; let this process read the state folder", err)
	}
	return key, nil
}

// add reads all rows and gives their sum under a key; do sees them as well.
func (r *onDisk) add(ctx context.Context, key partition.Key, do func(*tabular.Block) error) (*partition.DataSum,
	error) {
	var mu sync.Mutex
	whole := partition.NewDataSum(key)
	err := r.Blocks(ctx, func(b *tabular.Block) error {
		sum := partition.NewDataSum(key)
		sum.Add(b.Table)
		mu.Lock()
		whole.Merge(sum)
		mu.Unlock()
		return do(b)
	})
	return whole, err
}

func (r *onDisk) divide(c Config, key *partition.Key) (_ *division, err error) {
	units := r.rows
	if r.places != nil {
		units = r.places.Groups
	}
	if err := partition.CheckUnits(units, c.Teachers, partition.MostStreamed); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	d := &division{units: []int{units}}
	if key == nil {
		return d, nil
	}
	if *key != r.key {
		nothing := func(*tabular.Block) error { return nil }
		if r.sum, err = r.add(context.Background(), *key, nothing); err != nil {
			return nil, err
		}
		r.key = *key
	}
	d.manifest = c.manifest(r.schema, units, *key, r.sum)
	return d, nil
}

// manifest is that of rows that are not in memory.
func (c Config) manifest(s *partition.Schema, units int, key partition.Key,
	sum *partition.DataSum) *partition.Manifest {
	m := &partition.Manifest{Dataset: c.Dataset, Site: c.Site, Node: c.Node, SchemaSHA256: s.SHA256,
		Unit: c.Unit, Partitions: c.Teachers, Units: units}
	m.Seal(key, sum)
	return m
}

func (r *onDisk) site(p *question.Public, d *division, c Config) *question.Site {
	return question.NewStreamedSite(p, r.Stream, r.places, d.units[0], c.State)
}

func (r *onDisk) countUnits(c Config, column int) (map[string]int, error) {
	counts, err := r.countCells(c, column)
	if err != nil {
		return nil, err
	}
	by := map[string]int{}
	for cell, n := range counts {
		by[r.schema.Columns[column].CellText(float64(cell))] = n
	}
	return by, nil
}

// countCells is countUnits by cells.
func (r *onDisk) countCells(c Config, at int) (map[uint32]int, error) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var mu sync.Mutex
	counts := map[uint32]int{}
	key, err := partition.NewKey()
	if err != nil {
		return nil, err
	}
	units := grouping.New(ctx, c.scratch())
	err = r.Blocks(ctx, func(b *tabular.Block) error {
		if r.places == nil {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				if cell := b.Cells(i)[at]; !math.IsNaN(cell) {
					counts[uint32(cell)]++
				}
			}
			return nil
		}
		var numbers []int
		var digests [][32]byte
		for i, d := range partition.UnitDigests(key, b.Table) {
			if cell := b.Cells(i)[at]; !math.IsNaN(cell) {
				binary.BigEndian.PutUint32(d[28:], uint32(cell)) // 28 bytes tell units apart
				numbers, digests = append(numbers, b.Numbers[i]), append(digests, d)
			}
		}
		return units.Add(numbers, digests)
	})
	if err != nil || r.places == nil {
		return counts, err
	}
	for unit, err := range units.All() {
		if err != nil {
			return nil, err
		}
		counts[binary.BigEndian.Uint32(unit.Digest[28:])]++
	}
	return counts, nil
}

// scratch is the folder for sorts: before the first start nothing is made in the state folder's place.
func (c Config) scratch() string {
	if _, err := os.Stat(c.State); err != nil {
		return os.TempDir()
	}
	return c.State
}

// notRead are rows of which no more than columns and types was looked at. Their number is that of the first start.
type notRead struct {
	schema *partition.Schema
	stored *partition.Manifest
}

// Structure asks where the rows are, and of a database what its columns are, and looks at no row: it takes seconds
// for a table of any size. It is for tables that are not read into memory.
func (c Config) Structure(schema *partition.Schema, warn func(string)) (_ Rows, err error) {
	o := tabular.Options{Site: c.Site, From: c.Share[0], To: c.Share[1], Warn: warn}
	if err := schema.CheckUnit(c.Unit); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	r, ctx, unit := notRead{schema: schema}, context.Background(), c.Unit != partition.UnitRecord
	switch {
	case c.SQL.Pushdown:
		_, err = postgres.OpenPushed(ctx, schema, c.SQL, o, unit)
	case c.Stream && c.SQL.Set():
		_, err = postgres.OpenCursor(ctx, schema, c.SQL, o, unit)
	case c.Stream:
		_, err = tabular.OpenStream(schema, c.Data, o, c.scratch())
	default:
		err = errors.New("structure: the rows are read into memory; leave --structure out, or set stream or " +
			"sql.pushdown")
	}
	if err == nil {
		r.stored, err = loadManifest(manifestPath(c.State))
	}
	return r, err
}

func (r notRead) Schema() *partition.Schema { return r.schema }

func (r notRead) Len() int {
	if r.stored == nil {
		return 0
	}
	return r.stored.Rows
}

// divide takes the numbers of the first start; before it there are as many as a node may have.
func (r notRead) divide(Config, *partition.Key) (*division, error) {
	if r.stored == nil {
		return &division{units: []int{partition.MostStreamed}}, nil
	}
	return &division{units: []int{r.stored.Units}, manifest: r.stored}, nil
}

// site is not asked for: what is not read answers nothing.
func (r notRead) site(*question.Public, *division, Config) *question.Site {
	panic("rows that were not read")
}

func (r notRead) countUnits(Config, int) (map[string]int, error) {
	return nil, errors.New("no row was looked at, so that units of a category are not counted; leave --structure out")
}

// byCursor are rows of a database that are read for each question.
type byCursor struct {
	*postgres.Cursor
	units int
	key   partition.Key // of sum
	sum   *partition.DataSum
}

func (r *byCursor) Len() int { return r.sum.Rows() }

// cursor reads the rows once: each cell is checked, and the units are counted.
func (c Config) cursor(schema *partition.Schema, o tabular.Options) (_ Rows, err error) {
	if err := schema.CheckUnit(c.Unit); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	r := new(byCursor)
	ctx := context.Background() // ends by sql.timeout
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

func (r *byCursor) divide(c Config, key *partition.Key) (_ *division, err error) {
	if err := partition.CheckUnits(r.units, c.Teachers, partition.MostStreamed); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	d := &division{units: []int{r.units}}
	if key == nil {
		return d, nil
	}
	if *key != r.key {
		if _, r.sum, err = r.CountUnits(context.Background(), *key); err != nil {
			return nil, err
		}
		r.key = *key
	}
	d.manifest = c.manifest(r.Schema(), r.units, *key, r.sum)
	return d, nil
}

func (r *byCursor) site(p *question.Public, d *division, c Config) *question.Site {
	return question.NewStreamedSite(p, r.Held(r.key, r.sum), nil, r.units, c.State)
}

// countUnits relies on a unit's rows being in one block.
func (r *byCursor) countUnits(_ Config, column int) (map[string]int, error) {
	var mu sync.Mutex
	by := map[string]int{}
	err := r.Held(r.key, r.sum).Blocks(context.Background(), func(b *tabular.Block) error {
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

// inDatabase are rows that a database counts.
type inDatabase struct{ *postgres.Pushed }

func (r inDatabase) Len() int { return r.Rows() }

// push has the database check each cell.
func (c Config) push(schema *partition.Schema, o tabular.Options) (Rows, error) {
	if err := schema.CheckUnit(c.Unit); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	ctx := context.Background() // ends by sql.timeout
	rows, err := postgres.OpenPushed(ctx, schema, c.SQL, o, c.Unit != partition.UnitRecord)
	if err == nil {
		err = rows.Check(ctx)
	}
	if err != nil {
		return nil, err
	}
	return inDatabase{rows}, nil
}

func (r inDatabase) divide(c Config, key *partition.Key) (*division, error) {
	if err := partition.CheckUnits(r.Units(), c.Teachers, partition.MostStreamed); err != nil {
		return nil, fmt.Errorf("%s: %w", c.source(), err)
	}
	d := &division{units: []int{r.Units()}}
	if key == nil {
		return d, nil
	}
	var err error
	if d.sum, err = r.SumRows(context.Background(), key.ForDatabase()); err != nil {
		return nil, err
	}
	d.key, d.manifest = *key, c.manifest(r.Schema(), r.Units(), *key, partition.CountedSum(d.sum, r.Rows()))
	return d, nil
}

func (r inDatabase) site(p *question.Public, d *division, c Config) *question.Site {
	return question.NewPushedSite(p, r.Pushed, d.key, d.sum, c.State)
}

func (r inDatabase) countUnits(_ Config, column int) (map[string]int, error) {
	return r.UnitsBy(context.Background(), column)
}
