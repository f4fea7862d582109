package coordinator

import (
	"bytes"
	"context"
	"errors"
	"sort"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// spending is the spending of a run and of its dataset in etcd.
func spending(s *Store, run string) (ofRun, ofDataset privacy.Spending, err error) {
	n, err := s.Snapshot(context.Background(), nil, run)
	if err != nil {
		return privacy.Spending{}, privacy.Spending{}, err
	}
	return n.Spending(0, "")
}

func checkRoom(c *cluster, run string, release int) error {
	n, err := c.store.Snapshot(context.Background(), nil, run)
	if err != nil {
		return err
	}
	return n.CheckRoom(release)
}

// Whatever CheckRoom accepts can be charged, and anything else is refused before. The bound is close to etcd's limit.
func TestThereIsRoomForWhatCanBeCharged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	if err := checkRoom(c, "first", MaxRelease); err != nil {
		t.Errorf("the largest release: %v", err)
	}
	if err := checkRoom(c, "first", MaxRelease+1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a larger release: %v", err)
	}
	if err := checkRoom(c, "nobody", 1); !errors.Is(err, ErrNoRun) {
		t.Errorf("no run: %v", err)
	}
	// A run whose own record is large.
	wide := testRun("wide")
	wide.Spec = bytes.Repeat([]byte{1}, 900<<10)
	mustOpen(t, c.store, c.lead, wide)
	if err := checkRoom(c, "wide", MaxRelease); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "fewer queries") {
		t.Errorf("beside a large record: %v", err)
	}
	n, err := c.store.Snapshot(ctx, nil, "wide")
	testkit.Must(t, err)
	const step = 16 << 10
	size := step * sort.Search(MaxRelease/step, func(i int) bool { return n.CheckRoom((i+1)*step) != nil })
	charge := testCharge("wide", 0, "")
	charge.Release = bytes.Repeat([]byte{0xff}, size)
	if _, _, err := c.store.Charge(ctx, c.lead, charge); err != nil {
		t.Errorf("a release of %d bytes, for which there is room: %v", size, err)
	}
}

// The spending of a dataset has room for the mechanisms of three students, at their longest, beside the largest
// release of the largest run: see docs/limits.md#why-plan-entries-are-limited.
func TestThePlansOfThreeStudentsLeaveRoom(t *testing.T) {
	const entries, students, ofRun = 2000, 3, 64
	event := func(i int) privacy.Event {
		return privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 1.2345678901234567e-300,
			Sigma1: 123456789012345680000 + float64(i)*1e16, Sigma2: 123456789012345680000,
			Asked: 1 << 36, Answered: 1 << 36}
	}
	run, all := testRun("wide"), datasetRecord{}
	run.Spec, run.Plan = bytes.Repeat([]byte{1}, 16<<10), nil
	for i := range students * entries {
		all.Spent = append(all.Spent, event(i))
	}
	for i := range ofRun {
		run.Plan = append(run.Plan, privacy.Planned{Kind: strings.Repeat("k", 32), Stage: strings.Repeat("s", 32),
			Mechanism: event(i), Count: 1 << 36, Variant: privacy.Histogram})
		run.Spent, run.Used = append(run.Spent, event(i)), append(run.Used, 1<<36)
	}
	if all.Spent = privacy.Merge(all.Spent); len(all.Spent) != students*entries {
		t.Fatalf("%d different mechanisms", len(all.Spent))
	}
	value, err := encode(all)
	testkit.Must(t, err)
	if each := len(value) / len(all.Spent); each > 180 {
		t.Errorf("%d bytes a mechanism", each)
	}
	n := Snapshot{loaded{run: run, dataset: all, datasetKV: &mvccpb.KeyValue{Value: []byte(value)}}}
	if err := n.CheckRoom(MaxRelease); err != nil {
		t.Error(err)
	}
}

// The size of a release depends on its noise and on the votes.
func TestARefusedChargeDoesNotTellItsSize(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	charge := testCharge("first", 0, "")
	charge.Release = make([]byte, MaxRelease+12345)
	_, _, err := c.store.Charge(testkit.Within(t), c.lead, charge)
	if !errors.Is(err, ErrTooLarge) ||
		strings.ContainsAny(strings.ReplaceAll(err.Error(), "round 0", ""), "0123456789") {
		t.Errorf("error %v", err)
	}
}
