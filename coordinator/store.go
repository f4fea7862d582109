// Package coordinator keeps in etcd what a cluster must not lose: who leads, which nodes belong to a dataset, the
// runs, and the ledger.
//
// Start with [etcdserver.Start] (or run your own etcd; 3.7 is tested), [Open] a [Store] on it, and [Store.Lead].
// Everything that writes takes the [Leadership] and is fenced: each transaction compares the create revision of the
// leader's key, so that a leader that was deposed without noticing writes nothing.
//
// [Store.Charge] is where budget is spent. One transaction compares
//
//   - the leader's key (fence),
//   - the mod revision of the ledger's head, which also guards the totals that
//     the budget check was made on,
//   - the absence of a release for (run, round),
//
// and puts the ledger entry, the head, the run's total and the release. So a round is charged once and has one
// answer, also when requests race, time out after the commit, or are repeated by another process.
//
// A charge may drop the releases of earlier rounds of its run in the same transaction. Such a round is never charged
// again; see [ErrForgotten].
//
// A run whose budget has filter pld fixes beforehand all that it may release. Its plan is checked when it is opened,
// and each charge stays within it.
//
// # Keys
//
// Under the prefix ("/conclave/" unless set), values in JSON:
//
//	leader                            name of the leader, under its lease
//	datasets/<dataset>                the dataset, its last ledger entry (the head) and total
//	ledger/<dataset>/<seq>            entries in canonical form; seq in 16 hex digits
//	runs/<run>                        spec, budget, plan and total of a run
//	releases/<run>/<round>            the stored answer; round in 16 hex digits
//	nodes/<dataset>/<site>/<node>     a node as first admitted
//	enroll/<dataset>/requests/<site>  a site's request to be admitted
//	enroll/<dataset>/roster           the sites that the operator admitted, signed by the authority
//	fence-base                        of a restored etcd: added to the revisions of leaders
//
// # What it does not promise
//
// Anybody who can write to etcd can rewrite everything in it consistently. Only somebody with an earlier head can
// detect that from the hash chain; see package privacy. Give only the aggregators access to the prefix. An embedded
// etcd has one member: its folder is the only copy of the ledger, so back it up.
//
// Two processes that call [Store.Lead] with one name take leadership from each other. That is safe but useless: give
// each its own name.
package coordinator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/conclave-dp/conclave/internal/pattern"
)

const (
	defaultPrefix         = "/conclave/"
	defaultDialTimeout    = 5 * time.Second
	defaultRequestTimeout = 5 * time.Second
)

// Config says where etcd is.
type Config struct {
	// Endpoints are URLs or host:port pairs. Required without Embedded.
	Endpoints []string
	// Embedded is an etcd in this process, and no other store leads in it. Keys are then read and written without a
	// socket.
	Embedded Embedded
	// TLS is needed for https endpoints.
	TLS *tls.Config
	// Prefix begins all keys, so that clusters can share an etcd. Default
	// "/conclave/".
	Prefix string
	// DialTimeout bounds Open. Default 5 s.
	DialTimeout time.Duration
	// RequestTimeout bounds each request to etcd; an operation makes a few.
	// Default 5 s.
	RequestTimeout time.Duration
	// Observe, if set, receives the duration of each request to etcd and the gRPC name of its method. Many goroutines
	// call it.
	Observe func(method string, took time.Duration, err error)
	// Log, if set, receives what a standby sees of the leader.
	Log *zap.Logger
}

// Embedded is an etcd in this process, such as that of package etcdserver. The interface keeps clients from linking
// the etcd server.
type Embedded interface {
	Endpoints() []string
	// KV reads and writes without a socket; observe is from [Config].
	KV(client *clientv3.Client, observe func(method string, took time.Duration, err error)) clientv3.KV
}

// Store reads and writes the state of a cluster. It may be used concurrently.
type Store struct {
	config Config
	client *clientv3.Client
	now    func() time.Time
	part   int // bytes per part of a large release; only tests change it
	// datasets caches the dataset of each run that was read, by run name. It never changes.
	datasets sync.Map
	caches   sync.Map // a *cache for each charged dataset, by name
}

// Open connects and checks that etcd answers. Otherwise the error matches ErrUnavailable.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Embedded != nil {
		c.Endpoints = c.Embedded.Endpoints()
	}
	if len(c.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoints; give at least one")
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = defaultDialTimeout
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		// gRPC's default pause between attempts grows to two minutes; an etcd that returned would go unnoticed for
		// that long.
		Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
			MaxDelay: 250 * time.Millisecond},
		MinConnectTimeout: 3 * time.Second,
	})}
	if c.Observe != nil {
		options = append(options, grpc.WithChainUnaryInterceptor(observed(c.Observe)))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints,
		TLS:       c.TLS,
		Logger:    zap.NewNop(),
		// Notice a silent peer before the lease expires.
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions:          options,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client for %s: %w", strings.Join(c.Endpoints, ", "), err)
	}
	if c.Embedded != nil {
		client.KV = c.Embedded.KV(client, c.Observe)
	}
	s := &Store{config: c, client: client, now: time.Now, part: partBytes}
	dial, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	if _, _, err := s.read(dial, "connect", s.leaderKey()); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

// Close ends the connections and every leadership won through this store,
// without giving the leader's key back; see [Leadership.Resign].
func (s *Store) Close() error { return s.client.Close() }

// KnowsUsers reports whether etcd enforces the permissions of its users. If it does not, every client that may connect
// can do everything.
func (s *Store) KnowsUsers(ctx context.Context) (bool, error) {
	bounded, cancel := s.request(ctx)
	defer cancel()
	status, err := s.client.AuthStatus(bounded)
	if err != nil {
		return false, s.wrap(ctx, "check whether etcd has authentication", err)
	}
	return status.Enabled, nil
}

func (s *Store) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.config.RequestTimeout)
}

// Names are path elements, so that no name reaches into another's keys.
var namePattern = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkName(what, name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%w: %s %q; use 1 to 128 letters, digits, dots, dashes and underscores, starting with a "+
			"letter or digit", ErrBadName, what, name)
	}
	return nil
}

// Keys that a backup treats differently, under the prefix.
const (
	// LeaderKey names the leader. It is not backed up. While a backup is restored it keeps aggregators from leading.
	LeaderKey = "leader"
	// FenceBaseKey holds the number that a restored ledger adds to the revision at which a leader begins. A new etcd
	// counts from one, and the fences in a ledger must never fall.
	FenceBaseKey = "fence-base"
)

// Keys returns the key-value client of etcd and the prefix of all keys of the store, for backups.
func (s *Store) Keys() (kv clientv3.KV, prefix string) { return s.client, s.config.Prefix }

func (s *Store) leaderKey() string                { return s.config.Prefix + LeaderKey }
func (s *Store) fenceBaseKey() string             { return s.config.Prefix + FenceBaseKey }
func (s *Store) datasetKey(dataset string) string { return s.config.Prefix + "datasets/" + dataset }
func (s *Store) runKey(run string) string         { return s.config.Prefix + "runs/" + run }

func (s *Store) ledgerPrefix(dataset string) string {
	return s.config.Prefix + "ledger/" + dataset + "/"
}

func (s *Store) entryKey(dataset string, seq uint64) string {
	return fmt.Sprintf("%s%016x", s.ledgerPrefix(dataset), seq)
}

func (s *Store) releaseKey(run string, round uint64) string {
	return fmt.Sprintf("%s%016x", s.releasesPrefix(run), round)
}

func (s *Store) releasesPrefix(run string) string { return s.config.Prefix + "releases/" + run + "/" }

func (s *Store) nodesPrefix(dataset string) string { return s.config.Prefix + "nodes/" + dataset + "/" }

func (s *Store) nodeKey(n Node) string { return s.nodesPrefix(n.Dataset) + n.Site + "/" + n.Name }

// decode reads a value that this package wrote.
func decode[T any](kv *mvccpb.KeyValue) (v T, err error) {
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return v, fmt.Errorf("%w: key %s: %w; restore etcd from a backup", ErrCorrupt, kv.Key, err)
	}
	return v, nil
}

// encode serializes a value. JSON can represent all values of this package.
func encode(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(raw), nil
}
