package shape

import (
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// BenchmarkAnswer measures the noise of a round: 64 queries, two counts each.
func BenchmarkAnswer(b *testing.B) {
	for name, p := range map[string]privacy.Planned{
		"lnmax":     roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.LNMax(0.01), 0)),
		"gnmax":     roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.GNMax(40), 0)),
		"confident": roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(300, 50, 40), 0),
	} {
		b.Run(name, func(b *testing.B) {
			mechanism, err := spec.VoteMechanism(p)
			testkit.Must(b, err)
			q := &Votes{asked: 64, classes: 2, Mechanism: mechanism, whole: p.Variant == privacy.Histogram}
			counts, err := tallyVotes(roundtest.PackVotes(1000, 64, 2, roundtest.Alternating), 1000, 64, 2)
			testkit.Must(b, err)
			for b.Loop() {
				if _, err := q.Answer(gnmax.NewSource(), counts, &conclavev1.Release{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
