package coordinator

import (
	"bytes"
	"context"
	"errors"
	"sort"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// spending is that of a run and of its dataset, as etcd has them.
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

// What there is room for can be charged, and what there is none for is refused
// before: the bound is kept near what etcd takes.
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
	// A run whose own record takes much of a request.
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

// The size of a release depends on its noise and the votes under it.
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
