package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/student"
)

const (
	aggregatorName = "audit"
	// validity is longer than any audit.
	validity = 30 * 24 * time.Hour
)

// cluster is an aggregator with an embedded etcd on loopback, and what its peers
// need to dial it.
type cluster struct {
	dir    string
	server *aggregator.Server
	stop   context.CancelFunc
	served chan error
	// serving ends when the server ends, for any reason.
	serving context.Context
	sites   map[string]*grpc.ClientConn
	relay   *relay // real nodes connect to it
}

// newCluster starts a cluster that serves datasets to sites.
func newCluster(ctx context.Context, o Options, datasets []aggregator.DatasetConfig, sites []string) (
	_ *cluster, err error,
) {
	// A short path: etcd listens on a Unix socket below it.
	dir, err := os.MkdirTemp(o.Dir, "audit")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the cluster: %w; set TMPDIR to a writable folder", err)
	}
	c := &cluster{dir: dir, sites: map[string]*grpc.ClientConn{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := errors.Join(c.issue(datasets, sites), c.writeRecords()); err != nil {
		return nil, err
	}
	config := aggregator.DefaultConfig()
	config.Name, config.Listen = aggregatorName, "127.0.0.1:0"
	config.TLS = c.files(certs.RoleAggregator, aggregatorName)
	config.Etcd.Embedded, config.Etcd.Dir = true, filepath.Join(dir, "etcd")
	config.Datasets = datasets
	if c.server, err = aggregator.New(ctx, config, o.Aggregator); err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.Background())
	ended, end := context.WithCancelCause(context.Background())
	c.stop, c.serving, c.served = stop, ended, make(chan error, 1)
	go func() {
		err := c.server.Serve(serving)
		end(fmt.Errorf("the aggregator ended: %w", errors.Join(err, context.Canceled)))
		c.served <- err
	}()
	for _, site := range sites {
		if c.sites[site], err = dialSite(c.address(), c.files(certs.RoleNode, site)); err != nil {
			return nil, err
		}
	}
	c.relay, err = newRelay(c.files(certs.RoleAggregator, aggregatorName), c.sites)
	return c, err
}

func (c *cluster) address() string { return c.server.Addr().String() }

func (c *cluster) certs() string { return filepath.Join(c.dir, "certs") }

func (c *cluster) files(role certs.Role, name string) certs.Files {
	return certs.IssuedFiles(c.certs(), role, name)
}

func (c *cluster) issue(datasets []aggregator.DatasetConfig, sites []string) error {
	errs := []error{
		authority.Create(c.certs()),
		authority.Issue(c.certs(), certs.RoleAggregator, aggregatorName, []string{"127.0.0.1"}, validity),
	}
	for _, d := range datasets {
		errs = append(errs, authority.Issue(c.certs(), certs.RoleStudent, d.Name, nil, validity))
	}
	for _, site := range sites {
		errs = append(errs, authority.Issue(c.certs(), certs.RoleNode, site, nil, validity))
	}
	return errors.Join(errs...)
}

// student connects like a student. Each dataset has its own, because an aggregator bounds how many runs and calls
// one student makes. It reads and writes nothing outside the connection; the config only needs some values for run
// and out.
func (c *cluster) student(dataset string) (*student.Client, error) {
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset, config.Run, config.Out = c.address(), dataset, "audit", c.dir
	config.TLS = c.files(certs.RoleStudent, dataset)
	return student.Dial(config, zap.NewNop())
}

// close stops everything and removes the cluster's folder.
func (c *cluster) close() error {
	var errs []error
	c.relay.close()
	for _, conn := range c.sites {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	if c.server != nil {
		if c.stop != nil {
			c.stop()
			errs = append(errs, <-c.served)
		}
		errs = append(errs, c.server.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
