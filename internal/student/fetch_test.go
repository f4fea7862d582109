package student

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// FetchRun sends the test's messages, and the last one endlessly.
func (s *queueService) FetchRun(_ *conclavev1.FetchRunRequest, stream rpc.RunService_FetchRunServer) error {
	for i := 0; ; i = min(i+1, len(s.fetched)) {
		m := &conclavev1.FetchRunResponse{}
		switch {
		case i == len(s.fetched) && !s.endless:
			return nil
		case i == len(s.fetched):
			m = s.fetched[i-1]
		default:
			m = s.fetched[i]
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// A fetch fails if the aggregator sends anything besides the announced bytes, and writes no more.
func TestAnAggregatorThatSendsOtherThings(t *testing.T) {
	size := func(n uint64) *conclavev1.FetchRunResponse {
		return &conclavev1.FetchRunResponse{Message: &conclavev1.FetchRunResponse_Size{
			Size: &conclavev1.BundleSize{Bytes: n}}}
	}
	chunk := func(n int) *conclavev1.FetchRunResponse {
		return &conclavev1.FetchRunResponse{Message: &conclavev1.FetchRunResponse_Chunk{Chunk: make([]byte, n)}}
	}
	for name, c := range map[string]struct {
		fetched []*conclavev1.FetchRunResponse
		endless bool
		want    string // empty for a valid bundle
	}{
		"a bundle":         {[]*conclavev1.FetchRunResponse{size(10), chunk(4), chunk(6)}, false, ""},
		"nothing":          {nil, false, "sent no bundle"},
		"no size":          {[]*conclavev1.FetchRunResponse{chunk(4)}, false, "sent no bundle"},
		"half of it":       {[]*conclavev1.FetchRunResponse{size(10), chunk(4)}, false, "not have the announced size"},
		"chunks for ever":  {[]*conclavev1.FetchRunResponse{size(10), chunk(4)}, true, "not have the announced size"},
		"a chunk too long": {[]*conclavev1.FetchRunResponse{size(10), chunk(11)}, false, "not have the announced size"},
		"nothing for ever": {[]*conclavev1.FetchRunResponse{size(10), chunk(0)}, true, "not have the announced size"},
		"sizes for ever":   {[]*conclavev1.FetchRunResponse{size(10)}, true, "not have the announced size"},
		"a huge chunk":     {[]*conclavev1.FetchRunResponse{size(1 << 30), chunk(8 << 20)}, false, "larger than max"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &queueService{fetched: c.fetched, endless: c.endless}
			var came bytes.Buffer
			err := serveQueue(t, s).Fetch(testkit.Within(t), "a", func(int64) (io.Writer, error) { return &came, nil })
			switch {
			case c.want == "" && (err != nil || came.Len() != 10):
				t.Errorf("%d bytes came, %v", came.Len(), err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			case came.Len() > 10:
				t.Errorf("%d bytes were written", came.Len())
			}
		})
	}
}
