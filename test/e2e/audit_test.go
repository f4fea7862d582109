package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// auditor reads ledger and stored releases in etcd itself, over and over while
// others write and die, and remembers: the ledger may only grow, and a release
// that was stored may never change.
type auditor struct {
	t         *testing.T
	endpoints []string

	mu       sync.Mutex
	ledger   []string
	releases map[releaseKey][]byte
	reads    int
}

type releaseKey struct {
	run   string
	round uint64
}

// audit starts an auditor; finish ends it and checks how many releases it has seen
// in all.
func audit(t *testing.T, endpoints ...string) (a *auditor, finish func(releases int)) {
	t.Helper()
	a = &auditor{t: t, endpoints: endpoints, releases: map[releaseKey][]byte{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			a.watch(ctx)
			// Etcd is away while the aggregator it is embedded in is dead.
			select {
			case <-time.After(60 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	stop := func() { cancel(); testkit.Receive(t, done) }
	t.Cleanup(stop)
	return a, func(releases int) {
		t.Helper()
		stop()
		if n := a.charges(); n != releases {
			t.Errorf("%d releases were charged, want %d", n, releases)
		}
	}
}

// embeddedEndpoint is where the etcd of c's aggregator listens.
func (c *cluster) embeddedEndpoint() string {
	return "unix://" + filepath.Join(c.dir, "etcd", "etcd", "etcd.sock")
}

// open connects to etcd; nil when it is away.
func (a *auditor) open(ctx context.Context) *coordinator.Store {
	store, err := coordinator.Open(ctx, coordinator.Config{
		Endpoints: a.endpoints, DialTimeout: time.Second, RequestTimeout: time.Second,
	})
	if err != nil {
		return nil
	}
	return store
}

// watch reads until etcd goes away or ctx ends.
func (a *auditor) watch(ctx context.Context) {
	store := a.open(ctx)
	if store == nil {
		return
	}
	defer store.Close()
	for ctx.Err() == nil {
		if err := a.read(ctx, store, false); err != nil {
			return
		}
		select {
		case <-time.After(60 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// read compares the ledger and its new releases, or all of them, with what was
// seen before.
func (a *auditor) read(ctx context.Context, store *coordinator.Store, all bool) error {
	a.mu.Lock() // before reading, so that an older ledger is never compared with a newer one
	defer a.mu.Unlock()
	entries, err := store.Ledger(ctx, dataset)
	if errors.Is(err, coordinator.ErrNoDataset) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) < len(a.ledger) {
		a.t.Errorf("the ledger shrank from %d to %d entries", len(a.ledger), len(entries))
	}
	for i, e := range entries {
		line, err := e.Canonical()
		if err != nil {
			return err
		}
		known := i < len(a.ledger)
		if known && a.ledger[i] != string(line) {
			a.t.Errorf("ledger entry %d changed", e.Seq)
		}
		if e.Round != nil && (!known || all) {
			if err := a.readRelease(ctx, store, releaseKey{e.Run, *e.Round}, e.ReleaseSHA256, known); err != nil {
				return err
			}
		}
		if !known {
			a.ledger = append(a.ledger, string(line))
		}
	}
	a.reads++
	return nil
}

func (a *auditor) readRelease(ctx context.Context, store *coordinator.Store, key releaseKey, hash string,
	known bool) error {
	raw, _, found, err := store.Release(ctx, key.run, key.round)
	if err != nil {
		return err
	}
	if !found {
		a.t.Errorf("round %d is charged and its release is not there", key.round)
		return nil
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != hash {
		a.t.Errorf("the stored release of round %d is not the one in the ledger", key.round)
	}
	if before, seen := a.releases[key]; seen && string(before) != string(raw) {
		a.t.Errorf("the stored release of round %d changed", key.round)
	} else if seen && !known {
		a.t.Errorf("round %d was charged twice", key.round)
	}
	a.releases[key] = raw
	return nil
}

// again reads everything once more, so that what was seen early is compared
// with what stands at the end.
func (a *auditor) again() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	store := a.open(ctx)
	if store == nil {
		a.t.Fatal("etcd is away at the end")
	}
	defer store.Close()
	if err := a.read(ctx, store, true); err != nil {
		a.t.Fatal(err)
	}
	a.t.Logf("read the ledger %d times, %d releases", a.reads, len(a.releases))
}

// charged is the number of releases seen so far.
func (a *auditor) charged() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.releases)
}

// charges reads the ledger now and returns the number of releases.
func (a *auditor) charges() int {
	a.t.Helper()
	a.again()
	return a.charged()
}
