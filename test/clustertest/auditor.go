package clustertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Auditor repeatedly reads the ledgers and releases directly from etcd, past all faults of the aggregators, and
// remembers them. A ledger only grows, a release never changes, and no entry exceeds a budget.
type Auditor struct {
	endpoints []string
	blame     func(format string, args ...any)
	teachers  map[string]int // of each dataset
	stop      func()

	mu       sync.Mutex
	ledgers  map[string]*seen
	releases map[ReleaseKey]Release
	reads    int
	newest   time.Time     // time of the last new release
	longest  time.Duration // without a new one
}

// ReleaseKey names a release.
type ReleaseKey struct {
	Run   string
	Round uint64
}

// Release is an observed release.
type Release struct {
	Entry    ledger.Entry
	Teachers uint32
	raw      string
}

// seen is the observed part of a ledger.
type seen struct {
	lines   [][]byte
	entries []ledger.Entry
	budgets map[string]privacy.Budget // of its runs
}

// Audit starts an auditor of datasets with the given number of teachers, which ends with the test. It calls blame with
// each violation.
func Audit(t testing.TB, endpoints []string, teachers map[string]int, blame func(string, ...any)) *Auditor {
	a := &Auditor{endpoints: endpoints, blame: blame, teachers: teachers, ledgers: map[string]*seen{},
		releases: map[ReleaseKey]Release{}, newest: time.Now()}
	for dataset := range teachers {
		a.ledgers[dataset] = &seen{budgets: map[string]privacy.Budget{}}
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			a.watch(ctx)
			pause(ctx) // etcd is away, for example because the aggregator that embeds it is dead
		}
	}()
	a.stop = func() { cancel(); testkit.Receive(t, done) }
	t.Cleanup(a.stop)
	return a
}

func pause(ctx context.Context) {
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
	}
}

// connect connects to etcd past all proxies; nil if it cannot be reached.
func (a *Auditor) connect(ctx context.Context) *coordinator.Store {
	store, err := coordinator.Open(ctx, coordinator.Config{
		Endpoints: a.endpoints, DialTimeout: time.Second, RequestTimeout: 2 * time.Second,
	})
	if err != nil {
		return nil
	}
	return store
}

func (a *Auditor) watch(ctx context.Context) {
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
		pause(ctx)
	}
}

// read compares a ledger with the part seen so far, and adds the new entries.
func (a *Auditor) read(ctx context.Context, store *coordinator.Store, dataset string) error {
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
		a.blame("the ledger of %s shrank from %d to %d entries", dataset, len(s.lines), len(entries))
		return nil
	}
	for i, e := range entries {
		line, err := e.Canonical()
		if err != nil {
			return err
		}
		if i < len(s.lines) {
			if !bytes.Equal(line, s.lines[i]) {
				a.blame("entry %d of %s changed:\n%s\n%s", e.Seq, dataset, s.lines[i], line)
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
		a.blame("dataset %s has spent epsilon %v of %v (%v)", dataset, spent, spending.Budget.Epsilon, err)
	}
	return nil
}

// take checks a new release and its entry.
func (a *Auditor) take(ctx context.Context, store *coordinator.Store, s *seen, e ledger.Entry) error {
	key := ReleaseKey{e.Run, *e.Round}
	raw, entry, found, err := store.Release(ctx, key.Run, key.Round)
	if err != nil {
		return err
	}
	release := new(conclavev1.Release)
	sum := sha256.Sum256(raw)
	_, twice := a.releases[key]
	switch {
	case !found:
		// A dpgan student has rounds dropped that it will not ask again.
		run, err := store.Run(ctx, key.Run)
		if err != nil {
			return err
		}
		if key.Round >= run.Forgotten {
			a.blame("%v is charged and its release is not there", key)
		}
	case twice:
		a.blame("%v is charged twice, the second time with entry %d", key, e.Seq)
	case hex.EncodeToString(sum[:]) != e.ReleaseSHA256 || entry.Seq != e.Seq:
		a.blame("the stored release of %v is not the one that entry %d paid for", key, e.Seq)
	case proto.Unmarshal(raw, release) != nil:
		a.blame("the stored release of %v cannot be read", key)
	case e.EpsilonSpent > s.budgets[e.Run].Epsilon:
		a.blame("entry %d: run %s has spent epsilon %v of %v", e.Seq, e.Run, e.EpsilonSpent,
			s.budgets[e.Run].Epsilon)
	case release.Teachers > uint32(a.teachers[e.Dataset]):
		a.blame("%v has votes of %d teachers, there are %d", key, release.Teachers, a.teachers[e.Dataset])
	}
	a.releases[key] = Release{e, release.Teachers, string(raw)}
	a.longest = max(a.longest, time.Since(a.newest))
	a.newest = time.Now()
	return nil
}

// verify recomputes the seen part of a ledger.
func (a *Auditor) verify(dataset string) {
	if len(a.ledgers[dataset].lines) == 0 {
		return
	}
	text := append(bytes.Join(a.ledgers[dataset].lines, []byte("\n")), '\n')
	if _, err := ledger.VerifyStrict(bytes.NewReader(text)); err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		a.blame("the ledger of %s does not verify: %v", dataset, err)
	}
}

// Released is the number of releases seen so far.
func (a *Auditor) Released() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.releases)
}

// Found is everything that an auditor has seen.
type Found struct {
	Ledgers  map[string][]ledger.Entry // by dataset
	Releases map[ReleaseKey]Release
	// Forgotten are releases that students had dropped by the last look.
	Forgotten int
	Reads     int
	Longest   time.Duration // without a new release
}

// Found returns everything seen so far.
func (a *Auditor) Found() Found {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := Found{map[string][]ledger.Entry{}, maps.Clone(a.releases), 0, a.reads, a.longest}
	for dataset, s := range a.ledgers {
		f.Ledgers[dataset] = s.entries
	}
	return f
}

// End ends the auditor after all faults: it reads every release once more. While etcd is away or slow it tries again,
// until ctx ends.
func (a *Auditor) End(ctx context.Context) (Found, error) {
	a.stop()
	for {
		found, err := a.readAll(ctx)
		if err == nil || ctx.Err() != nil {
			return found, err
		}
		pause(ctx)
	}
}

// readAll reads all ledgers and, again, every release.
func (a *Auditor) readAll(ctx context.Context) (Found, error) {
	store := a.connect(ctx)
	if store == nil {
		return Found{}, errors.New("etcd is away at the end")
	}
	defer store.Close()
	for dataset := range a.ledgers {
		if err := a.read(ctx, store, dataset); err != nil {
			return Found{}, err
		}
		a.verify(dataset)
	}
	found := a.Found()
	for key, known := range a.releases {
		raw, entry, there, err := store.Release(ctx, key.Run, key.Round)
		if err != nil {
			return found, err
		}
		if !there {
			run, err := store.Run(ctx, key.Run)
			if err != nil {
				return found, err
			}
			if key.Round < run.Forgotten {
				found.Forgotten++
				continue
			}
		}
		if string(raw) != known.raw || entry.Hash != known.Entry.Hash {
			a.blame("the stored release of %v changed", key)
		}
	}
	return found, nil
}
