package coordinator

import (
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestRound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if _, err := c.store.Round(testkit.Within(t), nil, "nobody", 0); !errors.Is(err, ErrNoRun) {
		t.Errorf("error %v", err)
	}
	if n, err := c.store.Round(testkit.Within(t), nil, "first",
		0); err != nil || n.Found || n.Run.Name != "first" || n.Run.Releases != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	_, paid, err := c.store.Charge(testkit.Within(t), c.lead, testCharge("first", 0, "answer"))
	testkit.Must(t, err)
	n, err := c.store.Round(testkit.Within(t), nil, "first", 0)
	if err != nil || !n.Found || string(n.Release) != "answer" || n.Entry.Hash != paid.Hash || n.Run.Releases != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}
