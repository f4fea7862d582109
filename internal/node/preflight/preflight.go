package preflight

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Options select what is checked.
type Options struct {
	// Config is the path of the node's YAML file.
	Config string
	// Offline skips the network.
	Offline bool
	// Structure reads no row of a table that is not loaded into memory.
	Structure bool
	// Now returns the time; nil uses the system clock.
	Now func() time.Time
}

// checker passes results of one check to later ones.
type checker struct {
	*Report
	o      Options
	config node.Config
	schema *partition.Schema
	site   *node.Site
	// trusted reports whether the certificate files are usable.
	trusted bool
}

// Run makes all checks. A check that depends on something broken is skipped, and says so.
func Run(ctx context.Context, o Options) *Report {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &checker{Report: &Report{OK: true}, o: o}
	if !c.readConfig() {
		return c.Report
	}
	c.readSchema()
	c.readData()
	c.checkState()
	c.checkPolicy()
	c.checkCertificates()
	c.checkMachine()
	c.checkNetwork(ctx)
	return c.Report
}

func (c *checker) readConfig() bool {
	config, err := node.ReadConfig(c.o.Config)
	if err != nil {
		c.fail("config", err)
		c.skip("everything else", "the configuration cannot be read")
		return false
	}
	c.config = config
	if err := config.Validate(); err != nil {
		c.fail("config", err)
	} else {
		c.ok("config", "%s: node %s/%s on dataset %s, %s", c.o.Config, config.Site, config.Node,
			config.Dataset, text.Several(config.Teachers, "teacher"))
	}
	return true
}

func (c *checker) readSchema() {
	if c.config.Schema == "" {
		c.skip("schema", "the configuration has none")
		return
	}
	schema, err := partition.LoadSchema(c.config.Schema)
	if err != nil {
		c.fail("schema", err)
		return
	}
	c.schema = schema
	c.ok("schema", "%s, sha256 %s; the aggregator must use the same schema",
		text.Several(len(schema.Columns), "column"), schema.SHA256)
	if err := schema.CheckUnit(c.config.Unit); err != nil {
		c.add("unit", Problem, "set unit to record, or to the schema's column of role unit", "%v", err)
	} else {
		c.ok("unit", "%s; the aggregator must use the same unit", c.config.Unit)
	}
}

func (c *checker) readData() {
	if c.schema == nil || c.config.Data == "" && !c.config.SQL.Set() {
		c.skip("data", "there is no schema to read it by, or the configuration has none")
		return
	}
	if file := c.config.SQL.DSNFile; file != "" {
		if at, err := os.Stat(file); err == nil {
			c.openToOthers("database", file, at, "other users may read the password in it")
		}
	}
	read := c.config.Rows().Read
	if c.o.Structure {
		read = c.config.Rows().Structure
	}
	records, err := read(c.schema, func(odd string) {
		c.add("data", Warning, "use the column names of the schema", "%s", odd)
	})
	if err != nil {
		var found *tabular.Violations
		if !errors.As(err, &found) {
			c.fail("data", err)
			return
		}
		for i := range found.Found {
			v := &found.Found[i]
			c.add("data", Problem, v.Advice(), "%s: %s", found.File, v.Where())
		}
		if found.Ended != nil {
			c.fail("data", found.Ended)
		}
		return
	}
	if c.o.Structure {
		c.skip("data", "columns and types match the schema as far as known; rows were not read (--structure)")
	} else {
		c.ok("data", "%s of this site", text.Several(records.Len(), "row"))
	}
	if !c.config.Stream && !c.config.SQL.Pushdown {
		c.estimate(records.Len())
	}
	if c.config.Stream && !c.config.SQL.Set() && !c.o.Structure {
		c.estimateDisk(records.Len())
	}
	if c.site, err = node.NewSiteOf(c.config, records, nil); err != nil {
		c.fail("teachers and state", err)
		return
	}
	if c.o.Structure {
		c.skip("teachers and state", "record counts are unknown without reading the rows")
		return
	}
	facts, certain, err := c.site.Facts()
	if err != nil {
		c.fail("teachers and state", err)
		return
	}
	how := "from the state folder"
	if !certain {
		how = "by a trial division like that of the first start"
	}
	if facts.LeastUnits == 0 {
		c.add("teachers and state", Warning, "use fewer teachers before the node joins for the first time",
			"%s for %s; some teachers have none, %s", text.Several(facts.Units, "privacy unit"),
			text.Several(c.config.Teachers, "teacher"), how)
		return
	}
	c.ok("teachers and state", "%s for %s, at least %d each, %s", text.Several(facts.Units, "privacy unit"),
		text.Several(c.config.Teachers, "teacher"), facts.LeastUnits, how)
}
