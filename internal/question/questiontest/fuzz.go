package questiontest

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Fuzz passes arbitrary parameters to a kind. The kind must not panic: it answers within the shape, or refuses in
// a short text.
func Fuzz(f *testing.F, k question.Kind, c Cases) {
	if c.Units == nil {
		c.Units = SmallUnits
	}
	r := &runner{k, c}
	var kind proto.Message
	add := func(params proto.Message) {
		raw, err := proto.Marshal(params)
		testkit.Must(f, err)
		if kind = params; len(raw) < 1<<16 {
			f.Add(raw)
		}
	}
	for _, params := range r.answered() {
		add(params)
	}
	for _, bad := range c.Bad {
		add(bad.Params)
	}
	s := r.site(f)
	number := uint64(0)
	f.Fuzz(func(t *testing.T, raw []byte) {
		params := kind.ProtoReflect().New().Interface()
		if proto.Unmarshal(raw, params) != nil || c.Slow != nil && c.Slow(params) {
			return
		}
		number++
		a, err := Ask(s, k, params, fmt.Sprintf("r%.2s", digest(params)), number)
		if err == nil {
			CheckAnswer(t, s, a)
			return
		}
		if text := err.Error(); text == "" || len(text) > 1000 || strings.Contains(text, s.State) {
			t.Fatalf("refused with %q", text)
		}
	})
}
