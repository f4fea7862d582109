package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// smallPart is the part size in these tests, which store hundreds. The aggregator's test of the largest release uses
// the real size.
const smallPart = maxInline / 2

// large is a release of three and a half parts that repeats one byte.
func large(b byte) []byte { return bytes.Repeat([]byte{b}, 7*smallPart/2) }

func largeCharge(round uint64, b byte) Charge {
	c := testCharge("first", round, "")
	c.Release = large(b)
	return c
}

// parts counts the stored parts of all rounds of a run.
func parts(t *testing.T, s *Store, run string) int {
	t.Helper()
	r, err := s.client.Get(testkit.Within(t), s.config.Prefix+"releases/"+run+"/", clientv3.WithPrefix(),
		clientv3.WithKeysOnly())
	testkit.Must(t, err)
	n := 0
	for _, kv := range r.Kvs {
		if bytes.Count(kv.Key, []byte("/")) == 5 {
			n++
		}
	}
	return n
}

// wantRelease checks the stored release of a round, and that the ledger has its hash.
func wantRelease(t *testing.T, s *Store, round uint64, want []byte) {
	t.Helper()
	got, entry, found, err := s.Release(testkit.Within(t), "first", round)
	if sum := sha256.Sum256(want); err != nil || !found || !bytes.Equal(got, want) ||
		entry.ReleaseSHA256 != hex.EncodeToString(sum[:]) {
		t.Fatalf("round %d: %d bytes, found %v, %v; want %d", round, len(got), found, err, len(want))
	}
}

// A release that is too large for one request is stored in parts, charged once, returned again, and dropped with all
// its parts.
func TestReleasesInParts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	release, entry, err := c.store.Charge(ctx, c.lead, largeCharge(0, 1))
	if err != nil || !bytes.Equal(release, large(1)) || entry.Seq != 3 {
		t.Fatalf("%d bytes, %+v, %v", len(release), entry, err)
	}
	if again, same, err := c.store.Charge(ctx, c.lead, largeCharge(0, 2)); err != nil || same.Hash != entry.Hash ||
		!bytes.Equal(again, large(1)) {
		t.Errorf("charged again: %d bytes, %+v, %v", len(again), same, err)
	}
	wantRelease(t, openStore(t, Config{Endpoints: c.etcd.Endpoints()}), 0, large(1))
	if n := parts(t, c.store, "first"); n != 4 {
		t.Errorf("%d parts are stored, want 4", n)
	}
	small := testCharge("first", 1, "answer")
	small.Forget = 1
	mustCharge(t, c.store, c.lead, small)
	if n := parts(t, c.store, "first"); n != 0 {
		t.Errorf("%d parts of a release that was dropped", n)
	}
	if _, v := ledgerOf(t, c.store); v.Runs["first"].Releases != 2 {
		t.Errorf("%d releases", v.Runs["first"].Releases)
	}
	// A missing or damaged part is detected.
	mustCharge(t, c.store, c.lead, largeCharge(2, 3))
	key := partKey(c.store.releaseKey("first", 2), 1)
	for _, damage := range []clientv3.Op{clientv3.OpPut(key, "damage"), clientv3.OpDelete(key)} {
		_, err := c.store.client.Do(ctx, damage)
		testkit.Must(t, err)
		if _, _, _, err := c.store.Release(ctx, "first", 2); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a damaged part: %v", err)
		}
	}
}

// If a process dies around any of the writes of a release in parts, the next process recovers: the round is charged
// once, and the stored release is one whole draw.
func TestKillsBetweenParts(t *testing.T) {
	t.Parallel()
	const commits = 6 // dropping, four parts, the charge
	c := newCluster(t)
	dead := errors.New("killed")
	for kill := range 2 * commits {
		round, calls := uint64(kill), 0
		dying := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
		dying.client.KV = &faultyKV{dying.client.KV,
			func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
				calls++
				if calls <= kill/2 {
					return commit()
				}
				if calls == kill/2+1 && kill%2 == 1 { // it happened, but the answer was lost
					_, err := commit()
					testkit.Must(t, err)
				}
				return nil, dead
			}}
		want := large(2)
		_, _, err := dying.Charge(testkit.Within(t), c.lead, largeCharge(round, 1))
		if kill == 2*commits-1 { // it was charged, and reading shows it
			testkit.Must(t, err)
			want = large(1)
		} else if !errors.Is(err, dead) {
			t.Fatalf("kill %d: %v", kill, err)
		}
		testkit.Must(t, c.lead.Resign(testkit.Within(t)))
		next := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
		c.lead = leadAs(t, next, "other")
		got, _, err := next.Charge(testkit.Within(t), c.lead, largeCharge(round, 2))
		testkit.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Fatalf("kill %d: handed out %d of %x, want %x", kill, len(got), got[:1], want[:1])
		}
		wantRelease(t, next, round, want)
		if n := parts(t, next, "first"); n != 4*(kill+1) {
			t.Errorf("kill %d: %d parts are stored of %d rounds", kill, n, kill+1)
		}
		if _, v := ledgerOf(t, next); v.Runs["first"].Releases != kill+1 {
			t.Errorf("kill %d: %d releases", kill, v.Runs["first"].Releases)
		}
	}
}

// Late writes of a process that gave up, before any write of another attempt, do not mix two draws: one of them is
// stored whole and returned.
func TestLateWritesOfParts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	trials, every := 36, 1
	if testing.Short() {
		trials, every = 8, 5
	}
	for trial := range trials {
		round, late, before := uint64(trial), trial*every/6, trial*every%6
		other := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
		slow := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
		calls := 0
		var arrive func() (*clientv3.TxnResponse, error)
		slow.client.KV = &faultyKV{slow.client.KV,
			func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
				if calls++; calls <= late {
					return commit()
				}
				if arrive == nil {
					arrive = commit
				}
				return nil, errLost
			}}
		_, _, err := slow.Charge(testkit.Within(t), c.lead, largeCharge(round, 1))
		if !errors.Is(err, ErrUnavailable) {
			t.Fatalf("write %d is late: %v", late, err)
		}
		writes := 0
		other.client.KV = &faultyKV{other.client.KV,
			func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
				if writes == before {
					_, err := arrive()
					testkit.Must(t, err)
				}
				writes++
				return commit()
			}}
		got, _, err := other.Charge(testkit.Within(t), c.lead, largeCharge(round, 2))
		testkit.Must(t, err)
		// The late charge itself counts if its parts are there.
		if !bytes.Equal(got, large(2)) && !(late == 5 && before == 0 && bytes.Equal(got, large(1))) {
			t.Fatalf("write %d arrives before write %d: handed out %d of %x", late, before, len(got), got[:1])
		}
		wantRelease(t, other, round, got)
	}
	if _, v := ledgerOf(t, c.store); v.Runs["first"].Releases != trials {
		t.Errorf("%d releases", v.Runs["first"].Releases)
	}
}

// Parts of a failed charge are dropped when the run is closed.
func TestClosingDropsUnchargedParts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	kv, calls := c.store.client.KV, 0
	c.store.client.KV = &faultyKV{kv,
		func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
			if calls++; calls > 3 {
				return nil, context.Canceled
			}
			return commit()
		}}
	if _, _, err := c.store.Charge(testkit.Within(t), c.lead, largeCharge(0, 1)); err == nil {
		t.Fatal("charged")
	}
	c.store.client.KV = kv
	if n := parts(t, c.store, "first"); n != 2 {
		t.Fatalf("%d parts are left", n)
	}
	mustClose(t, c.store, c.lead, "first")
	if n := parts(t, c.store, "first"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
}
