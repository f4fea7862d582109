package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"errors"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// check verifies the final state after all faults and all runs, in addition to what the auditor saw meanwhile.
func (c *cluster) check(ctx context.Context, auditor *clustertest.Auditor) error {
	a, err := auditor.End(ctx)
	if err != nil {
		return err
	}
	c.checkLeaders(a)
	return errors.Join(c.checkMembers(ctx, a), c.checkAuditLogs(a), c.checkReaders(a), c.checkVotes(a),
		c.checkCharges(a))
}

// checkMembers compares the content of etcd's members at one revision, and counts keys: an entry for each number of a
// ledger, a release for each round.
func (c *cluster) checkMembers(ctx context.Context, a clustertest.Found) error {
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
	if int(releases.Count) != len(a.Releases)-a.Forgotten {
		c.told.blame("etcd holds %d releases, the ledgers have %d of which %d were dropped", releases.Count,
			len(a.Releases), a.Forgotten)
	}
	for dataset, s := range a.Ledgers {
		entries, err := client.Get(ctx, "/conclave/ledger/"+dataset+"/", clientv3.WithPrefix(),
			clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if int(entries.Count) != len(s) {
			c.told.blame("etcd holds %d entries of %s, read were %d", entries.Count, dataset, len(s))
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

// checkLeaders checks who released what. The fence of an entry is that of the process that logged the release, and
// fences in a ledger only grow, so every leader has one contiguous part.
func (c *cluster) checkLeaders(a clustertest.Found) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dataset, s := range a.Ledgers {
		last := int64(0)
		for _, e := range s {
			if e.Fence < last {
				c.told.blame("entry %d of %s has fence %d after %d: two leaders wrote at the same time", e.Seq, dataset,
					e.Fence, last)
			}
			last = e.Fence
		}
	}
	by := map[clustertest.ReleaseKey]string{}
	for _, p := range c.posted {
		key := clustertest.ReleaseKey{Run: p.run, Round: p.round}
		r, ok := a.Releases[key]
		switch {
		case !ok || r.Entry.Seq != p.seq:
			c.told.blame("%s says that it released %v with entry %d, which is not in the ledger", p.who, key, p.seq)
		case p.fence != r.Entry.Fence:
			c.told.blame("%s leads with fence %d and released %v, whose entry has fence %d", p.who, p.fence, key,
				r.Entry.Fence)
		case by[key] != "":
			c.told.blame("both %s and %s released %v", by[key], p.who, key)
		}
		by[key] = p.who
	}
	c.told.count("releases that an aggregator lived to log", len(c.posted))
	c.told.count("leaders", len(c.fences))
}

// checkAuditLogs compares the aggregators' audit logs with the ledger.
func (c *cluster) checkAuditLogs(a clustertest.Found) error {
	released, found := map[clustertest.ReleaseKey]string{}, map[clustertest.ReleaseKey]bool{}
	for i := range replicas {
		name := fmt.Sprintf("agg%d", i)
		err := eachLine(c.path("audit-"+name+".jsonl"), func(line string) {
			var e auditlog.Entry
			if json.Unmarshal([]byte(line), &e) != nil || e.Round == nil {
				return // a line truncated by a kill, or about something else
			}
			key := clustertest.ReleaseKey{Run: e.Run, Round: *e.Round}
			switch e.Event {
			case auditlog.Released:
				if before := released[key]; before != "" {
					c.told.blame("the audit logs of %s and %s both say that they released %v", before, name, key)
				}
				released[key] = name
				if r := a.Releases[key].Entry; r.Seq != e.LedgerSeq || r.Hash != e.LedgerHash {
					c.told.blame("the audit log of %s has %v with entry %d, the ledger with %d", name, key, e.LedgerSeq,
						r.Seq)
				}
			case auditlog.Found:
				found[key] = true
				if a.Releases[key].Entry.Hash != e.LedgerHash {
					c.told.blame("%s found %v with another entry than the ledger's", name, key)
				}
			case auditlog.Repeated:
				c.told.count("answers returned again", 1)
				if a.Releases[key].Entry.Hash != e.LedgerHash {
					c.told.blame("%s handed out %v with another entry than the ledger's", name, key)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for key := range a.Releases {
		if released[key] == "" && !found[key] {
			c.told.blame("no audit log has %v, which the ledger has", key)
		}
	}
	c.told.count("releases in the audit logs", len(released))
	return nil
}

// checkReaders compares every answer that any reader ever got.
func (c *cluster) checkReaders(a clustertest.Found) error {
	files, err := filepath.Glob(c.path("read-*.txt"))
	if err != nil {
		return err
	}
	answers := map[clustertest.ReleaseKey]string{}
	for _, file := range files {
		err := eachLine(file, func(line string) {
			var key clustertest.ReleaseKey
			var sum string
			if _, err := fmt.Sscan(line, &key.Run, &key.Round, &sum); err != nil || len(sum) != 64 {
				return // truncated by a kill
			}
			c.told.count("answers that readers compared", 1)
			if before := answers[key]; before != "" && before != sum {
				c.told.blame("two readers have two answers to %v", key)
			}
			if _, ok := a.Releases[key]; !ok {
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

// checkVotes compares the votes counted by aggregators with hooks with the teachers in the release: each voted once
// on every query, or was asked and too slow.
func (c *cluster) checkVotes(a clustertest.Found) error {
	for i := 1; i < replicas; i++ {
		if err := c.checkVotesOf(a, i); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (c *cluster) checkVotesOf(a clustertest.Found, i int) error {
	counted := map[clustertest.ReleaseKey][]uint32{}
	err := eachLine(filepath.Join(c.traps(i), "counted"), func(line string) {
		var key clustertest.ReleaseKey
		var low, high uint32
		if n, _ := fmt.Sscan(line, &key.Run, &key.Round, &low, &high); n != 4 {
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
		key := clustertest.ReleaseKey{Run: p.run, Round: p.round}
		n, release := counted[key], a.Releases[key]
		if len(n) == 0 || !strings.HasPrefix(p.who, c.aggregators[i].name) {
			continue
		}
		// A round that was not charged was counted again.
		if slices.Min(n) > release.Teachers || int(slices.Max(n)) > c.teachers(release.Entry.Dataset) {
			c.told.blame("%v names %d teachers, counted were the votes of %v", key, release.Teachers, n)
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

// counted returns all counts.
func (h *happenings) counted() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counts)
}
