package questiontest

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ParamsEqual reports whether a round has the wanted parameters.
func ParamsEqual(t *testing.T, r *conclavev1.Round, want proto.Message) bool {
	t.Helper()
	got := want.ProtoReflect().New().Interface()
	testkit.Must(t, proto.Unmarshal(r.GetParams(), got))
	return proto.Equal(got, want)
}
