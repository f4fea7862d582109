package coordinator

import (
	"testing"

	"github.com/conclave-dp/conclave/privacy"
)

// BenchmarkCharge is one round's part of etcd: reads, a synced commit.
func BenchmarkCharge(b *testing.B) {
	c := newCluster(b)
	charge := testCharge("first", 0, string(make([]byte, 4096)))
	charge.Events = []privacy.Event{{Kind: privacy.GNMax, Sigma: 1e5, Count: 64}}
	for b.Loop() {
		if _, _, err := c.store.Charge(b.Context(), c.lead, charge); err != nil {
			b.Fatal(err)
		}
		charge.Round++
	}
}

// BenchmarkOpenDataset verifies a ledger of 1000 releases, as a leader does
// when it begins.
func BenchmarkOpenDataset(b *testing.B) {
	c := newCluster(b)
	charge := testCharge("first", 0, "answer")
	charge.Events = []privacy.Event{{Kind: privacy.GNMax, Sigma: 1e5, Count: 64}}
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
