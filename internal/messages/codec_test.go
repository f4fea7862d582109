package messages

import (
	"errors"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A codec decodes what has so many parts as it may, and nothing that has more.
func TestCodec(t *testing.T) {
	c := NewCodec(3)
	for sites, want := range map[int]error{2: nil, 3: ErrCrowded} {
		sent := &conclavev1.Survivors{Run: "r", Sites: make([]string, sites)}
		raw, err := c.Marshal(sent)
		testkit.Must(t, err)
		got := new(conclavev1.Survivors)
		if err := c.Unmarshal(raw, got); !errors.Is(err, want) || want == nil && !proto.Equal(got, sent) {
			t.Errorf("%d sites: %v, %v", sites, got, err)
		}
	}
	if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer{0xff}}, new(conclavev1.Survivors)); err == nil {
		t.Error("what is no message is decoded")
	}
}
