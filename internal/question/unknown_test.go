package question

import (
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A field that a node does not know could change what a question means, so it answers none that has one.
func TestUnknownFieldsAreRefused(t *testing.T) {
	known := &conclavev1.MarginalsQuestion{Columns: []*conclavev1.CellColumn{{}}}
	testkit.Must(t, Unmarshal(Marshal(known), new(conclavev1.MarginalsQuestion)))
	field := []byte{0xf8, 0xff, 0xff, 0x0f, 1} // number 33554431, a one
	nested, outer := new(conclavev1.CellColumn), new(conclavev1.MarginalsQuestion)
	nested.ProtoReflect().SetUnknown(field)
	outer.ProtoReflect().SetUnknown(field)
	for name, q := range map[string]*conclavev1.MarginalsQuestion{
		"outside": outer, "inside": {Columns: []*conclavev1.CellColumn{nested}},
	} {
		if err := Unmarshal(Marshal(q), new(conclavev1.MarginalsQuestion)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
