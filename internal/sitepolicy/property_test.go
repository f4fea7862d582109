package sitepolicy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
)

func drawnEvent(t *rapid.T) privacy.Event {
	sigma := rapid.Float64Range(0.5, 50).Draw(t, "sigma")
	count := rapid.Int64Range(1, 40).Draw(t, "count")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return privacy.Event{Kind: privacy.Gaussian, Sigma: sigma, Sensitivity: 1, Count: 1}
	case 1:
		return privacy.Event{Kind: privacy.GNMax, Sigma: sigma, Count: count}
	case 2:
		return privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 10, Sigma1: 2 * sigma, Sigma2: sigma,
			Asked: count, Answered: count}
	case 3:
		return privacy.Event{Kind: privacy.Laplace, Epsilon: 1 / sigma, Count: 1}
	case 4:
		return privacy.Event{Kind: privacy.Exponential, Epsilon: 1 / (10 * sigma), Count: count}
	}
	return privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.05, NoiseMultiplier: 1 + sigma, Count: 1}
}

// For any sequence of requests, restarts, torn lines and changing limits: each answer was charged before, the charges
// stay within the limit by the accountant, and rereading the ledger gives the same.
func TestTheLimitIsNeverPassed(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		folder := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		filter := rapid.SampledFrom([]privacy.Filter{privacy.FilterGDP, privacy.FilterRDP}).Draw(t, "filter")
		limit := rapid.Float64Range(0.2, 8).Draw(t, "limit")
		write := func() {
			policy := fmt.Sprintf("datasets: [{name: d, epsilon: %v, delta: 1e-5, filter: %s, pipelines: [pategan], "+
				"approval: automatic}]", limit, filter)
			if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte(policy), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write()
		open := func() *Enforcer {
			g := New(Options{
				Policy: filepath.Join(folder, "policy.yaml"), Ledger: filepath.Join(folder, "l.jsonl"),
				Dataset: "d", Site: "north", Node: "0", SchemaSHA256: digest("schema"), Unit: "record",
			})
			g.ledger.sync = unsynced
			return g
		}
		g, most := open(), limit
		var answered []privacy.Event
		last, charges := map[string]string{}, 0
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				g = open()
			case 1:
				f, err := os.OpenFile(filepath.Join(folder, "l.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
				if err == nil {
					_, _ = f.WriteString(`{"seq":`)
					f.Close()
				}
				g = open()
			case 2:
				limit = rapid.Float64Range(0.2, 8).Draw(t, "limit")
				most = max(most, limit)
				write()
			default:
				r := round(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "run"),
					rapid.Uint64Range(0, 5).Draw(t, "round"), 1)
				r.Question = digest(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "question"))
				r.Charges = []privacy.Event{drawnEvent(t)}
				key := fmt.Sprint(r.Run, r.Round, r.Question)
				entry, err := g.Charge(r)
				var refusal *Refusal
				switch {
				case err == nil && last[r.Run] == key:
					if entry == nil || entry.Events != nil {
						t.Fatalf("%s was charged twice", key)
					}
				case err == nil:
					if entry == nil || entry.Events == nil {
						t.Fatalf("%s was not charged", key)
					}
					last[r.Run] = key
					charges++
					answered = append(answered, r.Charges...)
					claim, err := privacy.Running(answered, 1e-5)
					if err != nil {
						t.Fatal(err)
					}
					if claim.Epsilon > limit*(1+1e-9) || claim.Epsilon != entry.EpsilonSpent {
						t.Fatalf("%v is charged, %v is written, the limit is %v", claim.Epsilon, entry.EpsilonSpent,
							limit)
					}
				case !errors.As(err, &refusal) || refusal.Rule != RuleEpsilon || last[r.Run] == key:
					t.Fatal(err)
				default: // it would have exceeded the limit
					if _, err := (privacy.Budget{Epsilon: limit, Delta: 1e-5, Filter: filter}).Admit(answered,
						r.Charges); err == nil {
						t.Fatalf("%v was refused on top of %v under %v", r.Charges, answered, limit)
					}
				}
			}
		}
		err := open().ledger.use(func(b *book) ([]Entry, error) {
			spent, err := running(b.spent, 1e-5)
			written := 0
			for _, r := range b.runs {
				written += r.charges
			}
			if written != charges || spent > most*(1+1e-9) {
				t.Fatalf("%d charges of %d, epsilon %v of at most %v", written, charges, spent, most)
			}
			return nil, err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A charge takes the time to sync two files, whatever came before.
func BenchmarkCharge(b *testing.B) {
	s := newSite(b)
	s.write(strings.Replace(allowing, "epsilon: 2", "epsilon: 1000", 1))
	g := s.enforcer()
	g.ledger.sync = (*os.File).Sync
	r := round("r", 0, 1e4)
	for i := range uint64(b.N) {
		r.Round = i
		if _, err := g.Charge(r); err != nil {
			b.Fatal(err)
		}
	}
}
