package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	consoleStudents = 10
	consoleSites    = 20
	openedAtOnce    = 32 // runs that are opened at the same time
)

// consoleCluster is an aggregator with its own etcd, over TLS on a loopback, with nodes that are connected and runs.
type consoleCluster struct {
	dir, address string
	server       *aggregator.Server
	serving      context.CancelFunc
	served       chan error
	streams      context.CancelFunc
	connections  []*dial.Conn
	clients      []*student.Client
	open         []string // runs that are not closed
}

func newConsoleCluster(ctx context.Context, dir string, nodes, runs, open int) (r *consoleCluster, err error) {
	r = &consoleCluster{dir: dir, served: make(chan error, 1)}
	folder := filepath.Join(dir, "certs")
	if err := authority.Create(folder); err != nil {
		return nil, err
	}
	issue := func(role certs.Role, name string, hosts ...string) certs.Files {
		err = errors.Join(err, authority.Issue(folder, role, name, hosts, time.Hour))
		return certs.IssuedFiles(folder, role, name)
	}
	c := aggregator.DefaultConfig()
	c.Name, c.Listen, c.TLS = "aggregator", "127.0.0.1:0", issue(certs.RoleAggregator, "aggregator", "127.0.0.1")
	c.Etcd.Embedded, c.Etcd.Dir = true, filepath.Join(dir, "etcd")
	c.MaxRuns, c.MaxOpenRuns, c.MaxPlanEntries = 1<<20, 1<<20, 1<<20
	c.Datasets = []aggregator.DatasetConfig{{
		Name: dataset, SchemaSHA256: roundtest.Schema, Unit: "record", Budget: privacy.Budget{Epsilon: 1e5,
			Delta: 1e-5},
	}}
	issue(certs.RoleOperator, "desk")
	var own, ofSites []certs.Files
	for i := range consoleStudents {
		own = append(own, issue(certs.RoleStudent, fmt.Sprint("lab-", i)))
	}
	for i := range consoleSites {
		ofSites = append(ofSites, issue(certs.RoleNode, fmt.Sprint("site-", i)))
	}
	if err != nil {
		return nil, err
	}
	if r.server, err = aggregator.New(ctx, c, aggregator.Options{}); err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.Background())
	r.serving, r.address = stop, r.server.Addr().String()
	go func() { r.served <- r.server.Serve(serving) }()
	err = r.fill(ctx, own, runs, open)
	if err == nil {
		err = r.connect(ctx, ofSites, nodes)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// connect connects nodes, which answer nothing. They know the current ledger; otherwise each would be sent all of
// it.
func (r *consoleCluster) connect(ctx context.Context, files []certs.Files, nodes int) error {
	lines, err := r.clients[0].Ledger(ctx, r.open[0])
	if err != nil {
		return err
	}
	var last ledger.Entry
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		return err
	}
	head := &conclavev1.LedgerHead{Seq: last.Seq}
	if head.Hash, err = hex.DecodeString(last.Hash); err != nil {
		return err
	}
	target, err := dial.Parse(r.address, "")
	if err != nil {
		return err
	}
	ctx, r.streams = context.WithCancel(ctx)
	for i, f := range files {
		conn, err := target.Connect(f, time.Second)
		if err != nil {
			return err
		}
		r.connections = append(r.connections, conn)
		for j := i; j < nodes; j += len(files) {
			stream, err := rpc.NewTeacherServiceClient(conn).Work(ctx)
			if err != nil {
				return err
			}
			name := fmt.Sprint("node-", j)
			err = stream.Send(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: &conclavev1.Hello{
				Protocol: 5, Dataset: dataset, Site: fmt.Sprint("site-", i), Node: name, Teachers: 4,
				SchemaSha256: roundtest.Schema, Unit: "record", Manifest: name, Ledger: head,
			}}})
			for welcome := false; err == nil && !welcome; {
				var m *conclavev1.WorkResponse
				m, err = stream.Recv()
				welcome = m.GetWelcome() != nil
			}
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			go func() {
				for err == nil { // what the node is told of the ledger
					_, err = stream.Recv()
				}
			}()
		}
	}
	return nil
}

// fill opens runs, and closes all but some.
func (r *consoleCluster) fill(ctx context.Context, files []certs.Files, runs, open int) error {
	for _, f := range files {
		c := student.DefaultConfig()
		c.Aggregator, c.Dataset, c.TLS = r.address, dataset, f
		client, err := student.Dial(c, zap.NewNop())
		if err != nil {
			return err
		}
		r.clients = append(r.clients, client)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(openedAtOnce)
	for i := range runs {
		name := fmt.Sprintf("run-%05d", i)
		keep := i < open
		if keep {
			r.open = append(r.open, name)
		}
		all.Go(func() error {
			spec := roundtest.Spec()
			spec.Name, spec.Dataset, spec.Purpose = name, dataset, "how age and outcome go together"
			client := r.clients[i%len(r.clients)]
			if _, err := client.OpenRun(ctx, spec); err != nil || keep {
				return err
			}
			_, err := client.CloseRun(ctx, name, nil)
			return err
		})
	}
	return all.Wait()
}

// list is how long the aggregator takes to list all runs and nodes, in milliseconds.
func (r *consoleCluster) list(ctx context.Context) (float64, error) {
	c := student.DefaultConfig()
	c.Aggregator, c.Dataset = r.address, dataset
	c.TLS = certs.IssuedFiles(filepath.Join(r.dir, "certs"), certs.RoleOperator, "desk")
	client, err := student.Dial(c, zap.NewNop())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	began := time.Now()
	if _, _, err := client.Queue().List(ctx, ""); err != nil {
		return 0, err
	}
	_, err = client.Nodes(ctx)
	return milliseconds(time.Since(began)), err
}

// cancel ends a run, as its student.
func (r *consoleCluster) cancel(ctx context.Context, run string) error {
	var i int
	if _, err := fmt.Sscanf(run, "run-%d", &i); err != nil {
		return err
	}
	_, err := r.clients[i%len(r.clients)].Queue().Cancel(ctx, run, true)
	return err
}

func (r *consoleCluster) close() {
	for _, c := range r.clients {
		_ = c.Close()
	}
	if r.streams != nil {
		r.streams()
	}
	for _, c := range r.connections {
		_ = c.Close()
	}
	r.serving()
	<-r.served
	_ = r.server.Close()
}
