package coordinator

import (
	"fmt"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// BenchmarkCharge measures etcd's part of a round: reads and a synced commit.
func BenchmarkCharge(b *testing.B) {
	c := newCluster(b)
	charge := testCharge("first", 0, string(make([]byte, 4096)))
	charge.Use = votes(1e5, 64)
	for b.Loop() {
		if _, _, err := c.store.Charge(b.Context(), c.lead, charge); err != nil {
			b.Fatal(err)
		}
		charge.Round++
	}
}

// BenchmarkOpenDataset verifies a ledger of 1000 releases, as a new leader does.
func BenchmarkOpenDataset(b *testing.B) {
	c := newCluster(b)
	charge := testCharge("first", 0, "answer")
	charge.Use = votes(1e5, 64)
	for charge.Round = range 1000 {
		if _, _, err := c.store.Charge(b.Context(), c.lead, charge); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := c.store.OpenDataset(b.Context(), c.lead, testDataset); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChargePlanned measures a round of a planned run on samples that keeps only the last two releases. A
// release of 350,000 bytes has 100,000 numbers.
func BenchmarkChargePlanned(b *testing.B) {
	for _, size := range []int{4096, 350_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, lead, _ := plannedStore(b, byPLD)
			r := plannedRun("one")
			sigma, err := privacy.SampledSigma(byPLD, 0.02, 1e6, plan[:1].Events())
			if err != nil {
				b.Fatal(err)
			}
			sample := privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.02, NoiseMultiplier: sigma}
			r.Plan = privacy.Plan{plan[0], {Kind: "discriminator", Mechanism: sample, Count: 1e6}}
			if _, err := s.OpenRun(b.Context(), lead, r); err != nil {
				b.Fatal(err)
			}
			charge := sampleCharge("one", 0)
			charge.Release = make([]byte, size)
			for b.Loop() {
				if _, _, err := s.Charge(b.Context(), lead, charge); err != nil {
					b.Fatal(err)
				}
				charge.Round++
				charge.Forget = max(charge.Round, 1) - 1
				charge.Use = privacy.Use{Planned: 1, Queries: 1, Answered: 1}
			}
		})
	}
}
