package run

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// inMasks are the lines of a run among three sites, where one may collude.
func inMasks() string {
	var members []string
	for i, site := range []string{"south", "east", "north"} {
		members = append(members, fmt.Sprintf("{site: %s, key: %s}", site, strings.Repeat(string(rune('a'+i)), 64)))
	}
	return "aggregation: {masked: true, members: [" + strings.Join(members, ", ") + "]}\n"
}

// A forecast names the group that masks a run, the additional noise, and the charge in a site's own ledger, and says
// that the aggregator sees only totals.
func TestForecastOfAMaskedRun(t *testing.T) {
	schema := partitiontest.Schema(t, wideText)
	node := Node{Dataset: "d", Site: "north", Node: "1", Teachers: 15}
	for base, leaving := range map[string]string{
		embedding:                                "hello, permit, embedding sum, agreement, seeds, refusal",
		gradients + "warm_start: {embed: 0.3}\n": "hello, permit, embedding sum, gradients, agreement, seeds, refusal",
	} {
		plain := testkit.Value(NewForecast(runOf(t, base), schema, node))
		f := testkit.Value(NewForecast(runOf(t, base, inMasks()), schema, node))
		if plain.Masked != nil || f.Masked == nil {
			t.Fatalf("without masks %+v, with them %+v", plain.Masked, f.Masked)
		}
		m := *f.Masked
		if m.Sites != 3 || m.Quorum != 3 || m.Colluding != 1 || math.Abs(m.NoiseFactor-math.Sqrt(1.5)) > 1e-12 ||
			m.RevealsAtMost != 4 || m.SiteEpsilon < 1.9*f.Claim.Epsilon {
			t.Errorf("forecast %+v of a run of epsilon %v", m, f.Claim.Epsilon)
		}
		var names []string
		for i, l := range f.Leaving {
			names = append(names, l.Name)
			if strings.Contains(l.Content, "the aggregator sees it") || strings.Contains(l.Content, "sees them") {
				t.Errorf("%s: %s", l.Name, l.Content)
			}
			if l.Name == "permit" && l.Bytes <= plain.Leaving[i].Bytes {
				t.Errorf("a permit has no key: %d bytes", l.Bytes)
			}
		}
		if got := strings.Join(names, ", "); got != leaving {
			t.Errorf("leaving %s, want %s", got, leaving)
		}
		if f.Claim.Epsilon != plain.Claim.Epsilon { // the additional noise does not reduce the claim
			t.Errorf("epsilon %v with masks, %v without", f.Claim.Epsilon, plain.Claim.Epsilon)
		}
		spec, questions, err := Questions(runOf(t, base, inMasks()), schema, node)
		testkit.Must(t, err)
		if spec.GetMasked().GetQuorum() != 3 || len(questions) != strings.Count(leaving, ",")-4 {
			t.Errorf("%d questions, of a spec with %v", len(questions), spec.GetMasked())
		}
	}
}
