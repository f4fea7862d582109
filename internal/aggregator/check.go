package aggregator

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Check tells a node whether it would be let in. It has no effect: nothing is stored, and a
// node of the same name that is connected stays.
func (s *teacherService) Check(ctx context.Context, q *conclavev1.CheckRequest) (*conclavev1.CheckResponse, error) {
	r, err := s.check(ctx, q.GetHello())
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{
			Method: "Check", Dataset: q.GetHello().GetDataset(), Node: q.GetHello().GetSite() + "/" + q.GetHello().GetNode(),
		})
	}
	return r, err
}

func (s *teacherService) check(ctx context.Context, h *conclavev1.Hello) (*conclavev1.CheckResponse, error) {
	if h == nil {
		return nil, invalidf("a check must hold a hello")
	}
	asked := h
	if h.GetManifest() == "" { // before the first start there is none
		asked = proto.Clone(h).(*conclavev1.Hello)
		asked.Manifest = "none yet"
	}
	d, node, err := s.examine(ctx, asked)
	if err != nil {
		return nil, err
	}
	if _, err := s.checkMark(ctx, d.record.Name, h); err != nil {
		return nil, err
	}
	known, err := s.store.CheckNode(ctx, node)
	if err != nil {
		return nil, err
	}
	b := d.record.Budget
	return &conclavev1.CheckResponse{
		Aggregator: s.config.Name, Protocol: protocolVersion, Known: known,
		Epsilon: b.Epsilon, Delta: b.Delta, Filter: string(b.Filter), TeachersLive: d.Teachers(),
	}, nil
}
