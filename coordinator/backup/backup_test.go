package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/coordinator/etcdtest"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

var plan = privacy.Plan{{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: 200}}}

func open(t testing.TB, c coordinator.Config) *coordinator.Store {
	t.Helper()
	s, err := coordinator.Open(testkit.Within(t), c)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// embedded is a store on its own etcd.
func embedded(t testing.TB) *coordinator.Store {
	t.Helper()
	e, err := etcdserver.Start(context.Background(), etcdserver.Config{Dir: t.TempDir()})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, e.Close()) })
	return open(t, coordinator.Config{Endpoints: e.Endpoints()})
}

func lead(t testing.TB, s *coordinator.Store) *coordinator.Leadership {
	t.Helper()
	l, err := s.Lead(testkit.Within(t), "agg", time.Minute)
	testkit.Must(t, err)
	return l
}

// fill spends something, and submits runs whose names are not in order of submission.
func fill(t testing.TB, s *coordinator.Store) {
	t.Helper()
	ctx, l := testkit.Within(t), lead(t, s)
	defer func() { testkit.Must(t, l.Resign(ctx)) }()
	budget := privacy.Budget{Epsilon: 3, Delta: 1e-5}
	testkit.Must(t, s.OpenDataset(ctx, l, coordinator.Dataset{Name: "d", Budget: budget, SchemaSHA256: "5c0ffee",
		Unit: "record"}))
	_, err := s.OpenRun(ctx, l, coordinator.Run{Name: "first", Dataset: "d", Budget: privacy.Budget{Epsilon: 1,
		Delta: 1e-5}, Plan: plan, Student: "ada", Facts: ledger.Facts{Pipeline: "pategan",
		SchemaSHA256: strings.Repeat("ab", 32), Teachers: 4}})
	testkit.Must(t, err)
	for round := range uint64(150) { // more keys than a transaction takes
		charge(t, s, l, round)
	}
	for _, name := range []string{"zebra", "ant", "mole"} {
		_, _, err := s.Submit(ctx, l, coordinator.Submission{Name: name, Dataset: "d", Pipeline: "embed",
			Budget: privacy.Budget{Epsilon: .1, Delta: 1e-6}, Plan: plan, By: "lab", RunFile: "hash"},
			coordinator.Files{Run: []byte("run"), Schema: bytes.Repeat([]byte("schema"), 170<<10)})
		testkit.Must(t, err)
	}
}

func charge(t testing.TB, s *coordinator.Store, l *coordinator.Leadership, round uint64) ledger.Entry {
	t.Helper()
	_, entry, err := s.Charge(testkit.Within(t), l, coordinator.Charge{
		Question: coordinator.Question{Run: "first", Round: round, Use: privacy.Use{Queries: 1, Answered: 1}},
		Release:  []byte(fmt.Sprintf("answer %d", round)),
	})
	testkit.Must(t, err)
	return entry
}

// contents returns all keys except the leader's and the fence base.
func contents(t testing.TB, s *coordinator.Store) map[string]string {
	t.Helper()
	kv, prefix := s.Keys()
	r, err := kv.Get(testkit.Within(t), prefix, clientv3.WithPrefix())
	testkit.Must(t, err)
	all := map[string]string{}
	for _, found := range r.Kvs {
		all[string(found.Key)] = string(found.Value)
	}
	delete(all, prefix+coordinator.LeaderKey)
	delete(all, prefix+coordinator.FenceBaseKey)
	return all
}

func queue(t testing.TB, s *coordinator.Store) (names []string) {
	t.Helper()
	all, err := s.Submissions(testkit.Within(t))
	testkit.Must(t, err)
	for _, q := range all {
		names = append(names, q.Name)
	}
	return names
}

func verified(t testing.TB, s *coordinator.Store) ledger.Verification {
	t.Helper()
	entries, err := s.Ledger(testkit.Within(t), "d")
	testkit.Must(t, err)
	var lines bytes.Buffer
	for _, e := range entries {
		line, err := e.Canonical()
		testkit.Must(t, err)
		lines.Write(append(line, '\n'))
	}
	v, err := ledger.Verify(&lines)
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		t.Error(err)
	}
	return v
}

func written(t testing.TB, s *coordinator.Store) ([]byte, Summary) {
	t.Helper()
	var file bytes.Buffer
	sum, err := Write(testkit.Within(t), s, &file)
	testkit.Must(t, err)
	return file.Bytes(), sum
}

func restored(t testing.TB, s *coordinator.Store, file []byte) error {
	t.Helper()
	_, err := Restore(testkit.Within(t), s, bytes.NewReader(file), int64(len(file)))
	return err
}

// A user with read access to the prefix makes the backup, and one with write access restores it. The content is then
// the same and the ledger continues with fences that never fall, also a second time.
func TestBackupAndRestoreByUsers(t *testing.T) {
	t.Parallel()
	users := etcdtest.WithUsers(t, "/conclave/")
	as := func(u etcdtest.Users, name string) *coordinator.Store {
		return open(t, coordinator.Config{Endpoints: []string{u.Endpoint}, TLS: u.TLS(t, name)})
	}
	source := as(users, etcdtest.Ledger)
	fill(t, source)
	want, order := contents(t, source), queue(t, source)
	if !slices.Equal(order, []string{"zebra", "ant", "mole"}) {
		t.Fatalf("the queue is %v", order)
	}
	head := verified(t, source).Head
	file, sum := written(t, as(users, etcdtest.Backup))
	if sum.Keys != len(want) {
		t.Errorf("%d keys of %d", sum.Keys, len(want))
	}
	for again := range uint64(2) {
		fresh := etcdtest.WithUsers(t, "/conclave/")
		target := as(fresh, etcdtest.Ledger)
		if err := restored(t, as(fresh, etcdtest.Backup), file); err == nil {
			t.Fatal("who may only read restored it")
		}
		testkit.Must(t, restored(t, target, file))
		if got := contents(t, target); !maps.Equal(got, want) {
			t.Errorf("%d keys are restored of %d, or others", len(got), len(want))
		}
		if got := queue(t, target); !slices.Equal(got, order) {
			t.Errorf("the queue is %v", got)
		}
		if got := verified(t, target).Head; got != head {
			t.Errorf("head %s, want %s", got, head)
		}
		if err := restored(t, target, file); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("a second time: %v", err)
		}
		l := lead(t, target)
		if l.Fence() <= sum.Fence {
			t.Errorf("fence %d after %d", l.Fence(), sum.Fence)
		}
		charge(t, target, l, 150+again)
		testkit.Must(t, l.Resign(testkit.Within(t)))
		want, head = contents(t, target), verified(t, target).Head
		before := sum.Fence
		if file, sum = written(t, target); sum.Fence < l.Fence() || sum.Fence <= before {
			t.Errorf("the backup has fence %d, after a leader with %d", sum.Fence, l.Fence())
		}
	}
}

// full accepts a number of bytes and no more.
type full int

func (f *full) Write(p []byte) (int, error) {
	if *f -= full(len(p)); *f < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// A backup that cannot be written, or that nobody waits for, is an error and leaves nothing behind.
func TestBackupsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	source := embedded(t)
	fill(t, source)
	room := full(20 << 10)
	if _, err := Write(testkit.Within(t), source, &room); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("on a full disk: %v", err)
	}
	ended, cancel := context.WithCancel(testkit.Within(t))
	cancel()
	if _, err := Write(ended, source, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
}

// interrupted fails at a certain transaction.
type interrupted struct {
	clientv3.KV
	left int
}

func (i *interrupted) Txn(ctx context.Context) clientv3.Txn {
	if i.left--; i.left < 0 {
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		ctx = cancelled
	}
	return i.KV.Txn(ctx)
}

// Wherever a restore stops, no aggregator leads on a partial ledger. Only the same file completes it.
func TestARestoreThatWasInterrupted(t *testing.T) {
	t.Parallel()
	source := embedded(t)
	fill(t, source)
	file, _ := written(t, source)
	l := lead(t, source)
	charge(t, source, l, 150)
	other, _ := written(t, source)

	target := embedded(t)
	kv, prefix := target.Keys()
	places, sum, err := index(bytes.NewReader(file))
	testkit.Must(t, err)
	r := restore{&interrupted{kv, 2}, prefix, fmt.Sprintf(`{"name":"restore-%s"}`, sum.SHA256[:16])}
	ctx := testkit.Within(t)
	testkit.Must(t, r.begin(ctx))
	to := batch(places, 0)
	testkit.Must(t, r.put(ctx, bytes.NewReader(file), places[:to]))
	if err := r.put(ctx, bytes.NewReader(file), places[to:batch(places, to)]); err == nil {
		t.Fatal("it was not interrupted")
	}

	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := target.Lead(short, "agg", time.Minute); err == nil {
		t.Fatal("somebody leads on a part of a ledger")
	}
	if err := restored(t, target, other); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("with another file: %v", err)
	}
	testkit.Must(t, restored(t, target, file))
	lead(t, target)
	verified(t, target)
}

// An incomplete file changes nothing in etcd.
func TestDamagedBackups(t *testing.T) {
	t.Parallel()
	source, target := embedded(t), embedded(t)
	fill(t, source)
	file, _ := written(t, source)
	lines := bytes.SplitAfter(file, []byte("\n"))
	flipped := slices.Clone(file)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{
		"empty":             nil,
		"cut off":           bytes.Join(lines[:len(lines)/2], nil),
		"without its end":   bytes.Join(lines[:len(lines)-2], nil),
		"a key less":        bytes.Join(slices.Concat(lines[:3], lines[4:]), nil),
		"a bit flipped":     flipped,
		"more after it":     append(slices.Clone(file), lines[1]...),
		"of another format": bytes.Replace(file, []byte("backup/1"), []byte("backup/2"), 1),
		"a snapshot":        bytes.Repeat([]byte{0xED, 0xDA, 0x0C, 0}, 1000),
	} {
		if err := restored(t, target, bad); err == nil {
			t.Errorf("%s: it was restored", name)
		}
		if got := contents(t, target); len(got) > 0 {
			t.Fatalf("%s: %d keys", name, len(got))
		}
	}
	testkit.Must(t, restored(t, target, file))
}

func FuzzIndex(f *testing.F) {
	var file bytes.Buffer
	w := newLineWriter(&file)
	testkit.Must(f, w.add(header{format, 9}))
	testkit.Must(f, w.add(record{"datasets/d", 3, []byte("{}")}))
	f.Add(file.Bytes())
	testkit.Must(f, w.out.Flush())
	testkit.Must(f, w.add(end{1, "ab"}))
	testkit.Must(f, w.out.Flush())
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		places, sum, err := index(bytes.NewReader(raw))
		if err == nil && (len(places) != sum.Keys || len(sum.SHA256) != 64) {
			t.Errorf("%d places of %d keys", len(places), sum.Keys)
		}
		for _, p := range places {
			if p.offset < 0 || p.offset+int64(p.length) > int64(len(raw)) {
				t.Errorf("%+v lies outside of %d bytes", p, len(raw))
			}
		}
	})
}
