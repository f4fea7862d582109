package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
)

const (
	aggregatorName = "aggregator"
	// The two sides of a measurement.
	aggregatorSide, echoSide = "aggregator", "echo"
	validity                 = 24 * time.Hour
	// childMark is set in the environment of every process that is started.
	childMark = "CONCLAVE_SCALE_CHILD"
)

// workshop is what all sizes share: the built aggregator and the certificates.
type workshop struct {
	dir, self, aggregator, certs string
}

// newWorkshop builds cmd/aggregator and issues a certificate for each site.
func newWorkshop(ctx context.Context, dir string, nodes int) (*workshop, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &workshop{dir: dir, self: self, aggregator: filepath.Join(dir, "bin-aggregator"),
		certs: filepath.Join(dir, "certs")}
	// go run caches what it has linked; go build links again each time.
	build := exec.CommandContext(ctx, "go", "run", "-exec", "cp",
		"github.com/conclave-dp/conclave/cmd/aggregator", w.aggregator)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the aggregator: %w: %s", err, out)
	}
	if err := authority.Create(w.certs); err != nil {
		return nil, err
	}
	if err := authority.Issue(w.certs, certs.RoleAggregator, aggregatorName, []string{"127.0.0.1"},
		validity); err != nil {
		return nil, err
	}
	if err := authority.Issue(w.certs, certs.RoleStudent, "student", nil, validity); err != nil {
		return nil, err
	}
	var sites errgroup.Group
	sites.SetLimit(16) // they wait for the disk
	for i := range nodes {
		sites.Go(func() error { return authority.Issue(w.certs, certs.RoleNode, siteName(i), nil, validity) })
	}
	return w, sites.Wait()
}

type side struct {
	name     string
	process  *process
	address  string // of nodes and students
	monitor  string // of its metrics
	students []*asker
}

type rig struct {
	size             size
	dir              string
	aggregator, echo *side
	nodes            *process
	nodesMonitor     string
}

// start starts both servers and the nodes' process, which joins no server yet.
func (w *workshop) start(ctx context.Context, s size, audit bool) (r *rig, err error) {
	r = &rig{size: s, dir: filepath.Join(w.dir, s.String())}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.kill()
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, errors.New("a process did not start in time"))
	defer cancel()
	if r.aggregator, err = w.startAggregator(ctx, r.dir, audit); err != nil {
		return r, err
	}
	if r.echo, err = w.startEcho(ctx, r.dir); err != nil {
		return r, err
	}
	for _, side := range []*side{r.aggregator, r.echo} {
		if err = side.connect(w.certs, s.students); err != nil {
			return r, err
		}
	}
	r.nodes, err = start(nodesRole, filepath.Join(r.dir, "nodes.log"), w.self, nodesRole,
		"--certs", w.certs, "--nodes", fmt.Sprint(s.nodes), "--teachers", fmt.Sprint(s.teachers))
	if err != nil {
		return r, err
	}
	r.nodesMonitor, err = r.nodes.line(ctx)
	return r, err
}

// startAggregator starts the program that operators run, with a configuration like
// theirs, and finds in its log where it listens.
func (w *workshop) startAggregator(ctx context.Context, dir string, audit bool) (*side, error) {
	files := certs.IssuedFiles(w.certs, certs.RoleAggregator, aggregatorName)
	config := fmt.Sprintf(`name: %s
listen: 127.0.0.1:0
datasets: [{name: %s, schema_sha256: %s, unit: record, budget: {epsilon: 100, delta: 1e-5}}]
tls: {ca: %q, cert: %q, key: %q}
etcd: {embedded: true, dir: %q}
http: {listen: 127.0.0.1:0}
log: {level: info, format: json}
`, aggregatorName, dataset, schema, files.CA, files.Cert, files.Key, filepath.Join(dir, "etcd"))
	if audit {
		config += fmt.Sprintf("audit_log: %q\n", filepath.Join(dir, "audit.jsonl"))
	}
	path := filepath.Join(dir, "aggregator.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "aggregator.log")
	p, err := start(aggregatorSide, log, w.aggregator, "--config", path)
	if err != nil {
		return nil, err
	}
	a := &side{name: aggregatorSide, process: p}
	for a.address == "" || a.monitor == "" {
		select {
		case <-p.ended:
			return a, fmt.Errorf("the aggregator ended: %s", p.lastWords())
		case <-ctx.Done():
			return a, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
		raw, err := os.ReadFile(log)
		if err != nil {
			return a, err
		}
		a.monitor, a.address = logged(raw, "monitoring"), logged(raw, "listening")
	}
	return a, nil
}

// logged is the address in a line of a log, empty while there is none.
func logged(log []byte, message string) string {
	for line := range bytes.Lines(log) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == message {
			return entry.Address
		}
	}
	return ""
}

func (w *workshop) startEcho(ctx context.Context, dir string) (*side, error) {
	p, err := start(echoSide, filepath.Join(dir, "echo.log"), w.self, echoRole, "--certs", w.certs)
	if err != nil {
		return nil, err
	}
	e := &side{name: echoSide, process: p}
	if e.monitor, err = p.line(ctx); err != nil {
		return e, err
	}
	e.address, err = p.line(ctx)
	return e, err
}

func (r *rig) join(ctx context.Context, s *side) error {
	if _, err := fmt.Fprintln(r.nodes.in, s.address); err != nil {
		return fmt.Errorf("%w: %s", err, r.nodes.lastWords())
	}
	_, err := r.nodes.line(ctx)
	return err
}

// stop ends all processes in order: nodes leave before their servers end.
func (r *rig) stop() error {
	err := r.nodes.stop(nil)
	for _, s := range []*side{r.aggregator, r.echo} {
		err = errors.Join(err, s.leave())
	}
	return errors.Join(err, r.echo.process.stop(nil), r.aggregator.process.stop(syscall.SIGTERM))
}

// kill ends what runs, after an error.
func (r *rig) kill() {
	if r.nodes != nil {
		r.nodes.kill()
	}
	for _, s := range []*side{r.aggregator, r.echo} {
		if s == nil {
			continue
		}
		_ = s.leave()
		if s.process != nil {
			s.process.kill()
		}
	}
}
