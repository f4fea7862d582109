package peer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// A site has a limited number of node names in a dataset, including earlier ones; known names can always return.
func TestNodeNamesOfASiteAreBounded(t *testing.T) {
	var a Names
	stored := []ID{{"north", "old"}, {"south", "old"}}
	broken := errors.New("etcd is away")
	if _, err := a.Reserve(ID{"north", "old"}, func() ([]ID, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	loads := 0
	load := func() ([]ID, error) {
		loads++
		return stored, nil
	}
	for i := range maxSiteNodes - 1 {
		if known, err := a.Reserve(ID{"north", fmt.Sprint(i)}, load); known || err != nil {
			t.Fatal(i, known, err)
		}
	}
	_, err := a.Reserve(ID{"north", "more"}, load)
	if fault.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "site north already has 8192 "+
		"nodes") {
		t.Errorf("%v", err)
	}
	for _, id := range []ID{{"north", "old"}, {"north", "7"}, {"south", "old"}} {
		if known, err := a.Reserve(id, load); !known || err != nil {
			t.Errorf("%v: known %v, %v", id, known, err)
		}
	}
	if known, err := a.Reserve(ID{"south", "new"}, load); known || err != nil {
		t.Error(known, err)
	}
	a.GiveBack(ID{"north", "7"})
	if _, err := a.Reserve(ID{"north", "more"}, load); err != nil {
		t.Error(err)
	}
	if loads != 1 {
		t.Errorf("etcd was read %d times", loads)
	}
}
