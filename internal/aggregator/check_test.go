package aggregator

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Check says what a hello would meet with, stores nothing, and pushes nobody out.
func TestCheckHasNoEffect(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	client := conclavev1.NewTeacherServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, "north")))
	check := func(change func(*conclavev1.Hello)) (*conclavev1.CheckResponse, error) {
		h := hello(d, "north", "a", 4)
		if change != nil {
			change(h)
		}
		return client.Check(testkit.Within(t), &conclavev1.CheckRequest{Hello: h})
	}
	r, err := check(nil)
	testkit.Must(t, err)
	if r.GetKnown() || r.GetEpsilon() != 100 || r.GetDelta() != 1e-5 || r.GetTeachersLive() != 0 ||
		r.GetAggregator() != "agg" || r.GetProtocol() != 5 {
		t.Errorf("%v", r)
	}
	if nodes, err := c.server.store.Nodes(testkit.Within(t), d); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	node := c.node(t, hello(d, "north", "a", 4), roundtest.Silent)
	if r, err = check(nil); err != nil || !r.GetKnown() || r.GetTeachersLive() != 4 {
		t.Errorf("%v, %v", r, err)
	}
	select {
	case <-node.ended:
		t.Errorf("the node was pushed out: %v", node.err)
	default:
	}
	for name, bad := range map[string]struct {
		change func(*conclavev1.Hello)
		code   codes.Code
		says   string
	}{
		"site":     {func(h *conclavev1.Hello) { h.Site = "south" }, codes.PermissionDenied, "south"},
		"dataset":  {func(h *conclavev1.Hello) { h.Dataset = "none" }, codes.FailedPrecondition, "none"},
		"schema":   {func(h *conclavev1.Hello) { h.SchemaSha256 = "x" }, codes.FailedPrecondition, "same schema"},
		"unit":     {func(h *conclavev1.Hello) { h.Unit = "person" }, codes.FailedPrecondition, "person"},
		"teachers": {func(h *conclavev1.Hello) { h.Teachers = 5 }, codes.FailedPrecondition, "number of teachers"},
		"manifest": {func(h *conclavev1.Hello) { h.Manifest = "" }, codes.FailedPrecondition, "partition manifest"},
		"protocol": {func(h *conclavev1.Hello) { h.Protocol = 6 }, codes.FailedPrecondition, "protocol 6"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(bad.change)
			roundtest.WantStatus(t, err, bad.code, bad.says)
		})
	}
	_, err = client.Check(testkit.Within(t), &conclavev1.CheckRequest{})
	if err == nil {
		t.Error("no hello was taken for one")
	}
	student := conclavev1.NewTeacherServiceClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student")))
	_, err = student.Check(testkit.Within(t),
		&conclavev1.CheckRequest{Hello: proto.Clone(hello(d, "north", "a", 4)).(*conclavev1.Hello)})
	roundtest.WantStatus(t, err, codes.PermissionDenied, "node")
}
