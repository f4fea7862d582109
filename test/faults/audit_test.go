package faults

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// auditor reads the ledgers and releases in etcd itself, over and over, past all faults of
// the aggregators, and remembers: a ledger only grows, a release never changes, and no entry is
// over a budget.
type auditor struct {
	c *cluster

	mu       sync.Mutex
	ledgers  map[string]*seen
	releases map[releaseKey]released
	reads    int
	// forgotten are releases that students had dropped, at the end.
	forgotten int
	newest    time.Time     // when the last new release was seen
	longest   time.Duration // without a new one
}

type releaseKey struct {
	run   string
	round uint64
}

type released struct {
	raw      string
	entry    ledger.Entry
	teachers uint32
}

// seen is what was read of a ledger.
type seen struct {
	lines   [][]byte
	entries []ledger.Entry
	budgets map[string]privacy.Budget // of its runs
}

func newAuditor(ctx context.Context, c *cluster) *auditor {
	a := &auditor{c: c, ledgers: map[string]*seen{}, releases: map[releaseKey]released{}, newest: time.Now()}
	for _, d := range []string{wide, tight} {
		a.ledgers[d] = &seen{budgets: map[string]privacy.Budget{}}
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			a.watch(ctx)
			pause(ctx, 100*time.Millisecond)
		}
	}()
	c.t.Cleanup(func() { cancel(); testkit.Receive(c.t, done) })
	return a
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// connect reaches etcd past the proxies; nil while it cannot be reached.
func (a *auditor) connect(ctx context.Context) *coordinator.Store {
	store, err := coordinator.Open(ctx, coordinator.Config{
		Endpoints: a.c.endpoints(), DialTimeout: 2 * time.Second, RequestTimeout: 2 * time.Second,
	})
	if err != nil {
		return nil
	}
	return store
}

func (a *auditor) watch(ctx context.Context) {
	store := a.connect(ctx)
	if store == nil {
		return
	}
	defer store.Close()
	for ctx.Err() == nil {
		for dataset := range a.ledgers {
			if err := a.read(ctx, store, dataset); err != nil {
				return
			}
		}
		pause(ctx, 300*time.Millisecond)
	}
}

// read compares a ledger with what was seen of it, and takes in what is new.
func (a *auditor) read(ctx context.Context, store *coordinator.Store, dataset string) error {
	a.mu.Lock() // before reading, so that an older ledger is never compared with a newer one
	defer a.mu.Unlock()
	entries, err := store.Ledger(ctx, dataset)
	if errors.Is(err, coordinator.ErrNoDataset) {
		return nil
	}
	if err != nil {
		return err
	}
	s := a.ledgers[dataset]
	if len(entries) < len(s.lines) {
		a.c.told.blame("the ledger of %s shrank from %d to %d entries", dataset, len(s.lines), len(entries))
		return nil
	}
	for i, e := range entries {
		line, err := e.Canonical()
		if err != nil {
			return err
		}
		if i < len(s.lines) {
			if !bytes.Equal(line, s.lines[i]) {
				a.c.told.blame("entry %d of %s changed:\n%s\n%s", e.Seq, dataset, s.lines[i], line)
			}
			continue
		}
		if e.Round != nil {
			if err := a.take(ctx, store, s, e); err != nil {
				return err
			}
		} else if e.Budget != nil && e.Run != "" {
			s.budgets[e.Run] = *e.Budget
		}
		s.lines, s.entries = append(s.lines, line), append(s.entries, e)
	}
	a.reads++
	if a.reads%20 == 0 {
		a.verify(dataset)
	}
	if len(s.lines) == 0 {
		return nil
	}
	spending, err := store.Spent(ctx, dataset)
	if err != nil {
		return err
	}
	if spent, err := spending.EpsilonSpent(); err != nil || spent > spending.Budget.Epsilon {
		a.c.told.blame("dataset %s has spent epsilon %v of %v (%v)", dataset, spent, spending.Budget.Epsilon, err)
	}
	return nil
}

// take checks a new release and its entry.
func (a *auditor) take(ctx context.Context, store *coordinator.Store, s *seen, e ledger.Entry) error {
	key := releaseKey{e.Run, *e.Round}
	raw, entry, found, err := store.Release(ctx, key.run, key.round)
	if err != nil {
		return err
	}
	release := new(conclavev1.Release)
	sum := sha256.Sum256(raw)
	_, twice := a.releases[key]
	switch {
	case !found:
		// A student of dpgan has rounds dropped that it will not ask again.
		run, err := store.Run(ctx, key.run)
		if err != nil {
			return err
		}
		if key.round >= run.Forgotten {
			a.c.told.blame("%v is charged and its release is not there", key)
		}
	case twice:
		a.c.told.blame("%v is charged twice, the second time with entry %d", key, e.Seq)
	case hex.EncodeToString(sum[:]) != e.ReleaseSHA256 || entry.Seq != e.Seq:
		a.c.told.blame("the stored release of %v is not the one that entry %d paid for", key, e.Seq)
	case proto.Unmarshal(raw, release) != nil:
		a.c.told.blame("the stored release of %v cannot be read", key)
	case e.EpsilonSpent > s.budgets[e.Run].Epsilon:
		a.c.told.blame("entry %d: run %s has spent epsilon %v of %v", e.Seq, e.Run, e.EpsilonSpent,
			s.budgets[e.Run].Epsilon)
	case release.Teachers > uint32(a.c.teachers(e.Dataset)):
		a.c.told.blame("%v has votes of %d teachers, there are %d", key, release.Teachers, a.c.teachers(e.Dataset))
	}
	a.releases[key] = released{string(raw), e, release.Teachers}
	a.longest = max(a.longest, time.Since(a.newest))
	a.newest = time.Now()
	return nil
}

// verify recomputes what was seen of a ledger. Callers hold a.mu.
func (a *auditor) verify(dataset string) {
	if len(a.ledgers[dataset].lines) == 0 {
		return
	}
	text := append(bytes.Join(a.ledgers[dataset].lines, []byte("\n")), '\n')
	if _, err := ledger.VerifyStrict(bytes.NewReader(text)); err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		a.c.told.blame("the ledger of %s does not verify: %v", dataset, err)
	}
}

// released is the number of releases seen so far.
func (a *auditor) released() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.releases)
}

// again reads every release once more at the end, when nothing fails.
func (a *auditor) again(ctx context.Context) error {
	store := a.connect(ctx)
	if store == nil {
		return fmt.Errorf("etcd is away at the end")
	}
	defer store.Close()
	for dataset := range a.ledgers {
		if err := a.read(ctx, store, dataset); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for dataset := range a.ledgers {
		a.verify(dataset)
	}
	for key, known := range a.releases {
		raw, entry, found, err := store.Release(ctx, key.run, key.round)
		if err != nil {
			return err
		}
		if !found {
			run, err := store.Run(ctx, key.run)
			if err != nil {
				return err
			}
			if key.round < run.Forgotten {
				a.forgotten++
				continue
			}
		}
		if string(raw) != known.raw || entry.Hash != known.entry.Hash {
			a.c.told.blame("the stored release of %v changed", key)
		}
	}
	return nil
}
