package attacks

import (
	"fmt"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Opening and closing runs costs nothing, and fills the ledger with plans. A node that joins receives all of it, in
// messages of a valid size.
func TestALedgerOfLargePlansKeepsNoNodeAway(t *testing.T) {
	if testing.Short() {
		t.Skip("it opens 400 runs")
	}
	w := apart(t)
	spec := specOf(w.dataset(false))
	eve := rpc.NewStudentServiceClient(w.dial(t, certs.RoleStudent, "eve"))
	spec.Epsilon, spec.Plan = 0.5, nil
	for i := range 64 {
		digits := float64(i) / 7
		spec.Plan = append(spec.Plan, &conclavev1.Planned{Kind: "votes", Variant: "histogram",
			Mechanism: &conclavev1.PrivacyEvent{Kind: "confident-gnmax", Sigma1: 101.23456789012345 + digits,
				Sigma2: 203.1234567890123 + digits, Threshold: 100.12345678901234 + digits}})
	}
	for i := range 400 {
		spec.Name = fmt.Sprint("junk-", i)
		_, err := eve.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		testkit.Must(t, err)
		_, err = eve.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
		testkit.Must(t, err)
	}
	p := work(t, w.dial(t, certs.RoleNode, "north"))
	p.say(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{
		Hello: helloOf(spec.GetDataset(), "north", "a", honestTeachers)}})
	select {
	case <-p.ended:
		t.Errorf("a node that joins: %v", p.err)
	case <-p.welcomed:
	case <-testkit.Within(t).Done():
		t.Error("a node that joins hears nothing")
	}
}
