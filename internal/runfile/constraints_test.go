package runfile

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A run whose rows may break constraints of the schema is refused.
func TestConstraintsAreKeptOrRefused(t *testing.T) {
	schema, err := partition.ParseSchema([]byte(`columns:
  - {name: a, kind: integer, lower: 0, upper: 9}
  - {name: b, kind: integer, lower: 0, upper: 9}
constraints:
  - {at_most: [a, b]}
`))
	testkit.Must(t, err)
	for _, tc := range []struct{ pipeline, weights, want string }{
		{"marginals", "none", ""},
		{"marginals", "logreg-noised", "post, weights:"},
		{"pategan", "none", "rows of pategan may break them; use marginals"},
		{"embed", "none", "rows of embed may break them; use marginals"},
	} {
		s := DefaultSpec()
		s.Pipeline, s.Weights = tc.pipeline, tc.weights
		err := s.CheckStages(schema)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s with weights %s: the error is %v, want %q", tc.pipeline, tc.weights, err, tc.want)
		}
	}
}
