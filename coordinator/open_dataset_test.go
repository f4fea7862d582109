package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// While a leader audits a ledger it may be deposed and the next leader may write, or it may be suspended while etcd
// does not answer. Neither is damage, for which operators would restore a backup: the first ends its leadership, the
// second passes.
func TestOpenDatasetTellsDamageFromTheNextLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	mustCharge(t, c.store, c.lead, testCharge("first", 0, "answer"))
	// slowly opens the dataset under its own leadership, and calls then after a certain request.
	slowly := func(ctx context.Context, request int, then func()) error {
		var opening atomic.Bool
		var n int
		s := openStore(t, Config{Endpoints: c.etcd.Endpoints(), Observe: func(method string, _ time.Duration, _ error) {
			if !opening.Load() || !strings.HasPrefix(method, "/etcdserverpb.KV/") {
				return
			}
			if n++; n == request {
				opening.Store(false)
				then()
			}
		}})
		defer s.Close()
		lead := leadAs(t, s, "agg")
		opening.Store(true)
		return s.OpenDataset(ctx, lead, testDataset)
	}
	round := uint64(0)
	for request, want := range []error{1: ErrNotLeader, 2: ErrNotLeader, 3: ErrNotLeader, 4: nil} {
		if request == 0 {
			continue
		}
		// After the reads of the dataset, the ledger and the run, and after the final check.
		err := slowly(testkit.Within(t), request, func() {
			round++
			next := leadAs(t, c.store, "agg") // takes over at once
			if _, _, err := c.store.Charge(testkit.Within(t), next, testCharge("first", round, "answer")); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, want) || errors.Is(err, ErrCorrupt) {
			t.Errorf("deposed after request %d: %v, want %v", request, err, want)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	if err := slowly(ctx, 2, cancel); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("the run cannot be read: %v, want no word of damage", err)
	}
}
