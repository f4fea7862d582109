package cluster

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/student"
)

// patience is how long a page waits for the aggregator.
const patience = 15 * time.Second

//go:embed pages
var pages embed.FS

// Options configure a person's console.
type Options struct {
	Listen string // a loopback address
	Config student.Config
	// Authority is the authority's folder, to list and revoke certificates; empty without one.
	Authority string
	Log       *zap.Logger
}

// Cluster serves a person's pages.
type Cluster struct {
	*console.Console
	from      Aggregator
	who       certs.Identity
	dataset   string // where students submit
	authority string // folder
	trusted   string // file of the authorities that verify bundles
	own       time.Time
	cache     *cache
	ledgers   ledgers
	fetched   *fetched
}

// Run serves the console of a person with their certificate until the context ends. It calls opened with its address.
func Run(ctx context.Context, o Options, opened func(address string) error) (err error) {
	pair, err := pemfile.LoadPair(o.Config.TLS.Cert, o.Config.TLS.Key)
	if err != nil {
		return err
	}
	who, err := certs.IdentityOf(pair.Leaf)
	if err != nil {
		return err
	}
	if who.Role != certs.RoleOperator && who.Role != certs.RoleStudent {
		return fmt.Errorf("tls: cert: it is for %v; use a certificate of role operator or student; for a site use "+
			"`teacher console`", who)
	}
	if o.Authority != "" {
		if _, err := authority.Inventory(o.Authority); err != nil {
			return err
		}
	}
	client, err := student.Dial(o.Config, o.Log)
	if err != nil {
		return err
	}
	defer client.Close()
	folder, err := os.MkdirTemp("", "conclave-console-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c, err := New(o, who, asked{client.Queue(), o.Config.Dataset}, folder)
	if err != nil {
		return err
	}
	c.own = pair.Leaf.NotAfter
	if err := opened(c.Address()); err != nil {
		return errors.Join(err, c.Close())
	}
	return c.Serve(ctx)
}

// Serve answers until the context ends.
func (c *Cluster) Serve(ctx context.Context) error {
	c.cache.keep(ctx)
	return c.Console.Serve(ctx)
}

// New makes a person's pages from what an aggregator says. folder stores what the person fetches.
func New(o Options, who certs.Identity, from Aggregator, folder string) (*Cluster, error) {
	operator := who.Role == certs.RoleOperator
	nav := []console.Link{{Path: "/", Text: "Overview"}, {Path: "/runs", Text: "Runs"},
		{Path: "/submit", Text: "Submit a run"}, {Path: "/ledger", Text: "Ledger"}}
	if operator {
		nav = []console.Link{{Path: "/", Text: "Overview"}, {Path: "/runs", Text: "Runs"},
			{Path: "/queue", Text: "Queue"},
			{Path: "/nodes", Text: "Sites and nodes"}, {Path: "/budgets", Text: "Budgets"},
			{Path: "/ledger", Text: "Ledger"}, {Path: "/certificates", Text: "Certificates"}}
	}
	own, err := fs.Sub(pages, "pages")
	if err != nil {
		return nil, err
	}
	served, err := console.New(o.Listen, string(who.Role)+" "+who.Name, nav, own)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Console: served, from: from, who: who, dataset: o.Config.Dataset, authority: o.Authority,
		trusted: o.Config.TLS.CA, cache: newCache(from, operator), fetched: newFetched(folder),
	}
	c.Events("/events", c.cache.follow)
	c.Get("/{$}", c.overview)
	c.runPages()
	c.ledgerPages()
	if operator {
		c.Get("/queue", c.queue)
		c.Get("/budgets", c.budgets)
		c.nodePages()
		c.certificatePages()
	} else {
		c.submitPages()
		c.resultPages()
	}
	return c, nil
}

// operator reports whether the person is an operator.
func (c *Cluster) operator() bool { return c.who.Role == certs.RoleOperator }
