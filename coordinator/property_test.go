package coordinator

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// fault is the fate of one commit.
type fault int

const (
	noFault    fault = iota
	lostAnswer       // it happens, but the answer is lost
	lostCommit       // it does not happen
	lateCommit       // it happens later
	faultKinds
)

// TestAnyHistory runs random histories of questions, charges, closings and takeovers over an etcd that loses and
// delays commits. After each it checks that every round has one release and one charge, and that the ledger verifies.
func TestAnyHistory(t *testing.T) {
	t.Parallel()
	etcd := runEtcd(t, t.TempDir())
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		s, err := Open(testkit.Within(t),
			patient(Config{Endpoints: etcd.Endpoints(), Prefix: fmt.Sprintf("/history-%d/", histories)}))
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		runHistory(t, rt, s)
	})
}

func runHistory(t *testing.T, rt *rapid.T, s *Store) {
	ctx := testkit.Within(t)
	var leads []*Leadership
	takeOver := func() {
		l, err := s.Lead(ctx, "agg", 1e11)
		if err != nil {
			rt.Fatal(err)
		}
		leads = append(leads, l)
	}
	takeOver()
	if err := s.OpenDataset(ctx, leads[0], testDataset); err != nil {
		rt.Fatal(err)
	}
	runs := []string{"first", "second"}
	for _, name := range runs {
		if _, err := s.OpenRun(ctx, leads[0], testRun(name)); err != nil {
			rt.Fatal(err)
		}
	}

	var next fault
	var late []func() (*clientv3.TxnResponse, error)
	healthy := s.client.KV
	s.client.KV = &faultyKV{healthy, func(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
		f := next
		switch f {
		case lostAnswer:
			if _, err := commit(); err != nil {
				return nil, err
			}
		case lateCommit:
			late = append(late, commit)
		case noFault:
			return commit()
		}
		return nil, errLost
	}}

	type key struct {
		run   string
		round uint64
	}
	answers := make(map[key]string) // as returned
	asks := rapid.SampledFrom([]string{"a", "b"})
	for step := range rapid.IntRange(1, 12).Draw(rt, "steps") {
		run := rapid.SampledFrom(runs).Draw(rt, "run")
		next = fault(rapid.IntRange(0, int(faultKinds)-1).Draw(rt, "fault"))
		l := rapid.SampledFrom(leads).Draw(rt, "leader")
		switch rapid.IntRange(0, 9).Draw(rt, "action") {
		case 0:
			next = noFault
			takeOver()
		case 1:
			if _, _, err := s.CloseRun(ctx, l, run, "", ""); err != nil && !errors.Is(err, ErrUnavailable) &&
				!errors.Is(err, ErrNotLeader) {
				rt.Fatal(err)
			}
		case 3:
			q := testQuestion(run, rapid.Uint64Range(0, 3).Draw(rt, "round"), asks.Draw(rt, "asks"))
			err := s.Ask(ctx, l, q)
			if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotLeader) &&
				!errors.Is(err, ErrRunClosed) && !errors.Is(err, privacy.ErrOverBudget) {
				rt.Fatal(err)
			}
		case 2:
			if len(late) > 0 {
				if _, err := late[0](); err != nil {
					rt.Fatal(err)
				}
				late = late[1:]
			}
		default:
			k := key{run, rapid.Uint64Range(0, 3).Draw(rt, "round")}
			charge := testCharge(k.run, k.round, fmt.Sprintf("answer %d", step))
			charge.Digest = asks.Draw(rt, "asks")
			charge.Use = votes(rapid.SampledFrom([]float64{9, 20}).Draw(rt, "sigma"), 4)
			release, entry, err := s.Charge(ctx, l, charge)
			switch {
			case err == nil:
				if old, ok := answers[k]; ok && old != string(release) {
					rt.Fatalf("%v was %q and became %q", k, old, release)
				}
				if *entry.Round != k.round || entry.Run != k.run {
					rt.Fatalf("%v got the entry of %s/%d", k, entry.Run, *entry.Round)
				}
				answers[k] = string(release)
			case errors.Is(err, ErrUnavailable), errors.Is(err, ErrNotLeader),
				errors.Is(err, ErrRunClosed), errors.Is(err, privacy.ErrOverBudget):
			default:
				rt.Fatal(err)
			}
		}
	}
	for _, commit := range late {
		if _, err := commit(); err != nil {
			rt.Fatal(err)
		}
	}

	s.client.KV = healthy
	takeOver()
	if err := s.OpenDataset(context.WithoutCancel(ctx), leads[len(leads)-1], testDataset); err != nil {
		rt.Fatal(err) // the audit checks chain, totals, budgets, and that no round occurs twice
	}
	for k, want := range answers {
		got, _, found, err := s.Release(ctx, k.run, k.round)
		if err != nil || !found || string(got) != want {
			rt.Fatalf("%v was %q, stored is %q (%v, %v)", k, want, got, found, err)
		}
	}
}
