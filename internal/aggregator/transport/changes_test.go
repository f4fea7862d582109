package transport

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Changing calls have a rate limit: one for all calls of a student and another for the joins of a site. Read-only
// calls have none.
func TestChangesHaveARate(t *testing.T) {
	c := newChanges()
	lab := certs.Identity{Role: certs.RoleStudent, Name: "lab"}
	north := certs.Identity{Role: certs.RoleNode, Name: "north"}
	const (
		opens   = rpc.StudentService_OpenRun_FullMethodName
		submits = rpc.RunService_SubmitRun_FullMethodName
		lists   = rpc.RunService_ListRuns_FullMethodName
		joins   = rpc.TeacherService_Work_FullMethodName
	)
	for method, by := range map[string]certs.Identity{opens: lab, joins: north} {
		burst := map[string]int{opens: runBurst, joins: joinBurst}[method]
		calls := 0
		var err error
		for ; err == nil && calls < 2*burst; calls++ {
			err = c.check(by, method)
		}
		if fault.Code(err) != codes.ResourceExhausted || calls <= burst {
			t.Errorf("%s: after %d calls: %v", method, calls, err)
		}
	}
	if c.check(lab, submits) == nil {
		t.Error("calls of another method have a rate of their own")
	}
	for range 2 * joinBurst {
		if err := c.check(lab, lists); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.check(certs.Identity{Role: certs.RoleStudent, Name: "eve"}, opens); err != nil {
		t.Errorf("another student: %v", err)
	}
}
