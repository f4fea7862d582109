// Package etcdserver runs an etcd with one member inside this process: its start on a folder, its
// errors, its end, and its keys and values without a socket.
package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	// quotaBytes bounds the database. A ledger entry with its release takes
	// some kilobytes, so this is room for a few hundred thousand rounds; past
	// it etcd refuses writes and keeps answering reads.
	quotaBytes = 2 << 30
	// compactionRetention is how many revisions before the latest stay
	// readable. Nothing here reads history; watches want a little of it.
	compactionRetention = "1000"
	// tick and election are short because a single member waits for nobody.
	// They bound the time to start: etcd elects itself after one election.
	// With ticks of 10 ms, idle members would take 1.4% of a core.
	tickMillis, electionMillis = 50, 250

	// startTimeout is long because a first start waits for some 20 syncs of a disk that may be slow.
	startTimeout = 2 * time.Minute
	// closeGrace is how long calls in flight have when etcd closes.
	closeGrace   = 500 * time.Millisecond
	closeTimeout = 15 * time.Second
)

// ErrInUse: another process has the folder of an embedded etcd.
var ErrInUse = errors.New("etcd's folder is in use by another process")

// Config says where an embedded etcd keeps its data.
type Config struct {
	// Dir is the folder, created when it does not exist. It must outlive
	// restarts: it holds the ledger, in a folder "etcd" of mode 0700. One
	// process uses it at a time.
	Dir string
	// Logger gets etcd's errors, without those that it logs at a start and a
	// stop that went well; nil for none.
	Logger *zap.Logger
}

// Server is an etcd server with one member in this process.
type Server struct {
	endpoint string
	dir      string
	unlock   func() error
	server   *embed.Etcd
	grpc     atomic.Pointer[grpc.Server] // set once etcd serves
	gate     gatekeeper
	log      *etcdLog
	socket   string // folder of the socket when it is not Dir

	closeOnce sync.Once
	closeErr  error
}

// Start starts etcd on the folder's data and returns when it answers,
// usually within half a second.
//
// It listens on a Unix socket in a folder of mode 0700 and nowhere else: no
// other user can connect, and there is no peer port because there are no peers.
// Every commit is synced to disk before it is acknowledged.
//
// An error matches ErrInUse, at once, when another process has the folder.
func Start(ctx context.Context, c Config) (_ *Server, err error) {
	if c.Dir == "" {
		return nil, errors.New("embedded etcd: no folder; give a persistent one")
	}
	dir, err := filepath.Abs(filepath.Join(c.Dir, "etcd"))
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	e := &Server{dir: dir, log: newEtcdLog()}
	if e.unlock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.release())
		}
	}()
	socket, err := e.socketPath()
	if err != nil {
		return nil, err
	}
	e.endpoint = "unix://" + socket

	config := etcdConfig(dir, socket, e.log.logger(c.Logger))
	config.ServiceRegister = func(s *grpc.Server) { e.grpc.Store(s) }
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	started := make(chan startResult, 1)
	go startEtcd(config, started)
	select {
	case r := <-started:
		if r.err != nil {
			return nil, fmt.Errorf("start etcd in %s: %w", dir, r.err)
		}
		e.server = r.server
	case <-e.log.failed:
		return nil, fmt.Errorf("start etcd in %s: %w; the folder may be damaged: restore it from a backup",
			dir, e.log.err)
	case <-ctx.Done():
		e.log.closing.Store(true)
		go abandon(started)
		return nil, fmt.Errorf("start etcd in %s: it is not ready: %w; another program may have locked its files, or "+
			"the disk is slow", dir, context.Cause(ctx))
	}
	select {
	case <-e.server.Server.ReadyNotify():
		return e, nil
	case serr := <-e.server.Err():
		err = serr
	case <-e.log.failed:
		err = e.log.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", dir, err), e.stop())
}

func etcdConfig(dir, socket string, log *zap.Logger) *embed.Config {
	c := embed.NewConfig()
	c.Name = "conclave"
	c.Dir = filepath.Join(dir, "data")
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)

	endpoint := url.URL{Scheme: "unix", Path: socket}
	c.ListenClientUrls = []url.URL{endpoint}
	c.AdvertiseClientUrls = []url.URL{endpoint}
	// A member must have a peer URL to be known by; nobody listens on it.
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.EnableGRPCGateway = false

	c.TickMs, c.ElectionMs = tickMillis, electionMillis
	c.UnsafeNoFsync = false
	c.QuotaBackendBytes = quotaBytes
	c.AutoCompactionMode = embed.CompactorModeRevision
	c.AutoCompactionRetention = compactionRetention
	return c
}

type startResult struct {
	server *embed.Etcd
	err    error
}

// startEtcd runs on a goroutine of its own, because etcd's fatal errors end
// the goroutine they occur on. Damaged files also make it panic.
func startEtcd(config *embed.Config, started chan<- startResult) {
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("etcd cannot read its files (%v); restore the folder from a backup", r)
			started <- startResult{err: err}
		}
	}()
	server, err := embed.StartEtcd(config)
	started <- startResult{server, err}
}

// abandon closes an etcd that came up after nobody waited for it.
func abandon(started <-chan startResult) {
	if r := <-started; r.err == nil {
		r.server.Close()
	}
}

// Endpoints is where a [coordinator.Store] in this process, or another process of this
// user, reaches the server.
func (e *Server) Endpoints() []string { return []string{e.endpoint} }

// Failed is closed when etcd met an error after which it cannot go on, such as
// a full disk. Calls to it time out from then on; Err says why.
func (e *Server) Failed() <-chan struct{} { return e.log.failed }

// Err is the reason after Failed was closed, nil before.
func (e *Server) Err() error {
	select {
	case <-e.log.failed:
		return e.log.err
	default:
		return nil
	}
}

// Close ends calls in flight, stops the server and gives the folder free. Close
// stores first; those left open get errors that match ErrUnavailable.
func (e *Server) Close() error {
	e.closeOnce.Do(func() { e.closeErr = errors.Join(e.stop(), e.release()) })
	return e.closeErr
}

func (e *Server) stop() error {
	if e.server == nil {
		return nil
	}
	e.log.closing.Store(true)
	// etcd itself would wait seconds for watches that nobody ends.
	force := time.AfterFunc(closeGrace, func() {
		if s := e.grpc.Load(); s != nil {
			s.Stop()
		}
	})
	defer force.Stop()
	select {
	case <-e.gate.shut():
	case <-time.After(closeGrace):
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.server.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closeTimeout):
		return errors.Join(fmt.Errorf("etcd in %s did not stop within %v; end the process", e.dir, closeTimeout),
			e.Err())
	}
}

// release gives back what is outside etcd.
func (e *Server) release() error {
	var err error
	if e.socket != "" {
		err = os.RemoveAll(e.socket)
	}
	return errors.Join(err, e.unlock())
}

// lockFolder creates dir when needed and takes its lock file. The lock comes
// before etcd's own, which waits forever, and before the socket is replaced.
func lockFolder(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create etcd's folder: %w", err)
	}
	// Everyone who may enter the folder may use the socket; MkdirAll left an old
	// folder as it was, and volume drivers like to open them to groups.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict the permissions of etcd's folder: %w; run as its owner", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%w: %s; stop the other aggregator or use another folder", ErrInUse, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock etcd's folder: %w", err)
	}
	return lock.Close, nil
}

// maxSocketPath is what sockaddr_un holds on the systems with the least room.
const maxSocketPath = 103

// socketPath chooses the socket's place: in the folder, or where that path is
// too long for a socket, in a temporary folder.
func (e *Server) socketPath() (string, error) {
	path := filepath.Join(e.dir, "etcd.sock")
	if len(path) <= maxSocketPath {
		return path, nil
	}
	short, err := os.MkdirTemp("", "conclave-") // mode 0700
	if err != nil {
		return "", fmt.Errorf("%s is too long for a socket, and no other folder can be created: %w; use a shorter "+
			"path for etcd's folder, or set TMPDIR to a writable folder", path, err)
	}
	e.socket = short
	if path = filepath.Join(short, "etcd.sock"); len(path) > maxSocketPath {
		return "", fmt.Errorf("%s is too long for a socket; set TMPDIR to a shorter path", path)
	}
	return path, nil
}
