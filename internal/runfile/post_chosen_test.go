package runfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A run says which stages it has because of its data.
func TestAChosenStageIsSaid(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(numbers(34, "{name: y, kind: categorical, categories: [a, b]}")))
	testkit.Must(t, err)
	for lines, want := range map[string]bool{"": true, "post: []": false, "post: [relabel]": false} {
		s := DefaultSpec()
		testkit.Must(t, s.Parse("privacy: {epsilon: 1, delta: 1e-5, records: 10000}\n"+lines+"\n"))
		s.ByData()
		s.Choose(schema)
		s.Choose(schema) // some programs choose twice
		says := slices.ContainsFunc(s.Warnings(schema), func(w string) bool {
			return strings.Contains(w, "`post: []`")
		})
		if says != want {
			t.Errorf("%q: said %v, stages %v", lines, says, s.Post)
		}
	}
}
