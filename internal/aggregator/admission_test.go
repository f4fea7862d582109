package aggregator

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
)

// A site has so many names in a dataset, counting those of before; its own and others' that
// are known come back as ever.
func TestNodeNamesOfASiteAreBounded(t *testing.T) {
	var a admitted
	stored := []coordinator.Node{{Site: "north", Name: "old"}, {Site: "south", Name: "old"}}
	broken := errors.New("etcd is away")
	if _, err := a.reserve(nodeID{"north", "old"}, func() ([]coordinator.Node, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	loads := 0
	load := func() ([]coordinator.Node, error) {
		loads++
		return stored, nil
	}
	for i := range maxSiteNodes - 1 {
		if known, err := a.reserve(nodeID{"north", fmt.Sprint(i)}, load); known || err != nil {
			t.Fatal(i, known, err)
		}
	}
	_, err := a.reserve(nodeID{"north", "more"}, load)
	wantStatus(t, toStatus(err), codes.FailedPrecondition, "site north", "8192 nodes")
	for _, id := range []nodeID{{"north", "old"}, {"north", "7"}, {"south", "old"}} {
		if known, err := a.reserve(id, load); !known || err != nil {
			t.Errorf("%v: known %v, %v", id, known, err)
		}
	}
	if known, err := a.reserve(nodeID{"south", "new"}, load); known || err != nil {
		t.Error(known, err)
	}
	a.giveBack(nodeID{"north", "7"})
	if _, err := a.reserve(nodeID{"north", "more"}, load); err != nil {
		t.Error(err)
	}
	if loads != 1 {
		t.Errorf("etcd was read %d times", loads)
	}
}
