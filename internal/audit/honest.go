package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
)

// schema is the schema of real nodes' records; scripted nodes have none.
const schema = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: y, kind: binary}
label: y
`

// schemaSHA256 is the hash of schema.
var schemaSHA256 = func() string {
	sum := sha256.Sum256([]byte(schema))
	return hex.EncodeToString(sum[:])
}()

// records are the tables of real nodes in a world. The worlds of masked runs differ only here. The tables add up
// to units.
func records(world int) map[string][]byte {
	tables := map[string][]byte{fixedSite: []byte("x,y\n0.1,0\n0.2,0\n0.3,1\n"), movedSite: []byte("x,y\n0.4,1\n")}
	if world == 0 {
		tables[movedSite] = append(tables[movedSite], "0.5,0\n"...)
	}
	return tables
}

// movedUnits is the number of units of class 0 at the site with the differing record, in world 0.
const movedUnits = 1

func (c *cluster) schema() string { return filepath.Join(c.dir, "schema.yaml") }

func (c *cluster) table(site string, world int) string {
	return filepath.Join(c.dir, fmt.Sprintf("%s-%d.csv", site, world))
}

// writeRecords writes the files that real nodes read.
func (c *cluster) writeRecords() error {
	errs := []error{os.WriteFile(c.schema(), []byte(schema), 0o600)}
	for world := range 2 {
		for site, table := range records(world) {
			errs = append(errs, os.WriteFile(c.table(site, world), table, 0o600))
		}
	}
	return errors.Join(errs...)
}

// enterMasked connects real nodes with the world's records, through the relay, and the colluding sites.
func (t *trials) enterMasked(ctx context.Context, c *cluster, group *errgroup.Group) (err error) {
	if t.group, err = c.group(t.scenario); err != nil {
		return err
	}
	t.adversary = newAdversary()
	c.relay.tell(t.dataset, t.adversary)
	for _, site := range t.scenario.masked.honest {
		config := node.DefaultConfig()
		config.Aggregator, config.Dataset, config.Site, config.Teachers = c.relay.address(), t.dataset, site, 1
		config.Schema, config.Data = c.schema(), c.table(site, t.world)
		config.State = filepath.Join(c.dir, "nodes", t.dataset, site)
		config.TLS = c.files(certs.RoleNode, site)
		n, err := node.New(config, kinds.All(), zap.NewNop())
		if err != nil {
			return fmt.Errorf("node of site %s: %w", site, err)
		}
		group.Go(func() error { return n.Run(ctx) })
	}
	for _, site := range t.scenario.masked.colluding() {
		p, err := c.colluder(site, t)
		if err != nil {
			return err
		}
		stream, err := join(ctx, c.sites[site], site, t.dataset, 1)
		if err != nil {
			return err
		}
		group.Go(func() error { return work(ctx, stream, p.reply) })
	}
	return nil
}
