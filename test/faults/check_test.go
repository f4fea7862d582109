package faults

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// check is what must hold at the end, when all faults are over and all runs ended, besides
// what the auditor saw meanwhile.
func (c *cluster) check(ctx context.Context, a *auditor) error {
	if err := a.again(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := c.checkMembers(ctx, a); err != nil {
		return err
	}
	c.checkLeaders(a)
	if err := c.checkAuditLogs(a); err != nil {
		return err
	}
	if err := c.checkReaders(a); err != nil {
		return err
	}
	return c.checkVotes(a)
}

// checkMembers compares all that etcd's members hold at one revision, and counts keys: an
// entry for each number of a ledger, a release for each round.
func (c *cluster) checkMembers(ctx context.Context, a *auditor) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), DialTimeout: 5 * time.Second,
		Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	releases, err := client.Get(ctx, "/conclave/releases/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if int(releases.Count) != len(a.releases)-a.forgotten {
		c.told.blame("etcd holds %d releases, the ledgers have %d of which %d were dropped", releases.Count,
			len(a.releases), a.forgotten)
	}
	for dataset, s := range a.ledgers {
		entries, err := client.Get(ctx, "/conclave/ledger/"+dataset+"/", clientv3.WithPrefix(),
			clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if int(entries.Count) != len(s.entries) {
			c.told.blame("etcd holds %d entries of %s, read were %d", entries.Count, dataset, len(s.entries))
		}
	}
	var hashes []uint32
	for _, endpoint := range c.endpoints() {
		var hash *clientv3.HashKVResponse
		// A member that was away may not have caught up yet.
		for end := time.Now().Add(testkit.Patience); ; time.Sleep(200 * time.Millisecond) {
			if hash, err = client.HashKV(ctx, endpoint, releases.Header.Revision); err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("hash of %s: %w", endpoint, err)
			}
		}
		hashes = append(hashes, hash.Hash)
	}
	if slices.Min(hashes) != slices.Max(hashes) {
		c.told.blame("etcd's members differ at revision %d: %x", releases.Header.Revision, hashes)
	}
	return nil
}

// checkLeaders checks who released what: the fence of an entry is that of the process that
// says it released the round, and of a ledger's entries the fences only grow, so that every
// leader has one stretch of it.
func (c *cluster) checkLeaders(a *auditor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dataset, s := range a.ledgers {
		last := int64(0)
		for _, e := range s.entries {
			if e.Fence < last {
				c.told.blame("entry %d of %s has fence %d after %d: two leaders wrote at the same time", e.Seq, dataset,
					e.Fence, last)
			}
			last = e.Fence
		}
	}
	by := map[releaseKey]string{}
	for _, p := range c.posted {
		key := releaseKey{p.run, p.round}
		r, ok := a.releases[key]
		switch {
		case !ok || r.entry.Seq != p.seq:
			c.told.blame("%s says that it released %v with entry %d, which is not in the ledger", p.who, key, p.seq)
		case p.fence != r.entry.Fence:
			c.told.blame("%s leads with fence %d and released %v, whose entry has fence %d", p.who, p.fence, key,
				r.entry.Fence)
		case by[key] != "":
			c.told.blame("both %s and %s released %v", by[key], p.who, key)
		}
		by[key] = p.who
	}
	c.told.count("releases that an aggregator lived to log", len(c.posted))
	c.told.count("leaders", len(c.fences))
}

// checkAuditLogs compares what the aggregators wrote down with the ledger.
func (c *cluster) checkAuditLogs(a *auditor) error {
	released := map[releaseKey]string{}
	for i := range replicas {
		name := fmt.Sprintf("agg%d", i)
		err := eachLine(c.path("audit-"+name+".jsonl"), func(line string) {
			var e auditlog.Entry
			if json.Unmarshal([]byte(line), &e) != nil || e.Round == nil {
				return // a line that a kill cut off, or one about something else
			}
			key := releaseKey{e.Run, *e.Round}
			switch e.Event {
			case auditlog.Released:
				if before := released[key]; before != "" {
					c.told.blame("the audit logs of %s and %s both say that they released %v", before, name, key)
				}
				released[key] = name
				if r := a.releases[key].entry; r.Seq != e.LedgerSeq || r.Hash != e.LedgerHash {
					c.told.blame("the audit log of %s has %v with entry %d, the ledger with %d", name, key, e.LedgerSeq,
						r.Seq)
				}
			case auditlog.Repeated:
				c.told.count("answers handed out again", 1)
				if a.releases[key].entry.Hash != e.LedgerHash {
					c.told.blame("%s handed out %v with another entry than the ledger's", name, key)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	c.told.count("releases in the audit logs", len(released))
	return nil
}

// checkReaders compares every answer that any reader ever got.
func (c *cluster) checkReaders(a *auditor) error {
	files, err := filepath.Glob(c.path("read-*.txt"))
	if err != nil {
		return err
	}
	answers := map[releaseKey]string{}
	for _, file := range files {
		err := eachLine(file, func(line string) {
			var key releaseKey
			var sum string
			if _, err := fmt.Sscan(line, &key.run, &key.round, &sum); err != nil || len(sum) != 64 {
				return // cut off by a kill
			}
			c.told.count("answers that readers compared", 1)
			if before := answers[key]; before != "" && before != sum {
				c.told.blame("two readers have two answers to %v", key)
			}
			if _, ok := a.releases[key]; !ok {
				c.told.blame("a reader has an answer to %v, which was never charged", key)
			}
			answers[key] = sum
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkVotes compares the votes that aggregators with hooks counted with the teachers that
// the release names: each voted once on every query, or was asked and too slow.
func (c *cluster) checkVotes(a *auditor) error {
	for i := 1; i < replicas; i++ {
		if err := c.checkVotesOf(a, i); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (c *cluster) checkVotesOf(a *auditor, i int) error {
	counted := map[releaseKey][]uint32{}
	err := eachLine(filepath.Join(c.traps(i), "counted"), func(line string) {
		var key releaseKey
		var low, high uint32
		if n, _ := fmt.Sscan(line, &key.run, &key.round, &low, &high); n != 4 {
			return
		}
		if low != high {
			c.told.blame("%v has %d votes on a query and %d on another", key, low, high)
		}
		counted[key] = append(counted[key], high)
		c.told.count("rounds whose votes were counted one by one", 1)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.posted {
		key := releaseKey{p.run, p.round}
		n, release := counted[key], a.releases[key]
		if len(n) == 0 || !strings.HasPrefix(p.who, c.aggregators[i].name) {
			continue
		}
		// A round that was not charged was counted again.
		if slices.Min(n) > release.teachers || int(slices.Max(n)) > c.teachers(release.entry.Dataset) {
			c.told.blame("%v names %d teachers, counted were the votes of %v", key, release.teachers, n)
		}
	}
	return err
}

func eachLine(path string, each func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		each(lines.Text())
	}
	return lines.Err()
}

// summary is all counts, sorted.
func (h *happenings) summary() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for what, n := range h.counts {
		lines = append(lines, fmt.Sprintf("%6d  %s", n, what))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[8:], b[8:]) })
	return strings.Join(lines, "\n")
}
