package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
	"github.com/conclave-dp/conclave/internal/pate"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// referenceRow has the fields of all groups of figures.
type referenceRow struct {
	Sigma, Threshold, Delta, Epsilon float64
	Sensitivity                      float64 `json:"sensitivity_l2"`
	Compositions                     int64   `json:"compositions"`
	referenceSample
	Votes         json.RawMessage `json:"votes"`
	Orders        []float64       `json:"rdp_orders"`
	DataDependent []float64       `json:"rdp_data_dependent"`
	LNMaxRDP      []float64       `json:"rdp"`
	Scale         float64         `json:"laplace_scale"`
	Lambda        float64         `json:"inverse_scale_lambda"`
	referenceSelection
}

// referenceSample has the fields of Gaussian noise on Poisson samples.
type referenceSample struct {
	Rate       float64 `json:"sampling_probability"`
	Multiplier float64 `json:"noise_multiplier"`
	Steps      int64   `json:"steps"`
	ByRDP      float64 `json:"epsilon_rdp"`
	ByPLD      float64 `json:"epsilon_pld"`
}

// referenceSelection has the fields of selections by the exponential mechanism.
type referenceSelection struct {
	Rounds   int64   `json:"rounds"`
	Epsilon0 float64 `json:"epsilon0"`
	Advanced float64 `json:"epsilon_advanced"`
	Basic    float64 `json:"epsilon_basic"`
}

// bestEpsilon converts divergences at a few orders; the command uses more orders, so its result must not exceed this
// one.
func bestEpsilon(orders, rho []float64, delta float64) float64 {
	best := math.Inf(1)
	for i, a := range orders {
		best = min(best, rho[i]+math.Log1p(-1/a)-(math.Log(delta)+math.Log(a))/(a-1))
	}
	return max(0, best)
}

// claimed has the fields of the command's answer that are compared.
type claimed struct {
	privacy.Price
	DataDependent pate.Claim `json:"data_dependent"`
}

// The command gives the figures of other implementations for event files: for each fourth row, since the tests of
// internal/privacy and internal/pate compare all of them.
func TestReferenceFiguresByCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	raw, err := os.ReadFile("../../../shared/reference/privacy.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/reference/privacy.json is not here")
	}
	testkit.Must(t, err)
	var groups map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(raw, &groups))
	file := filepath.Join(t.TempDir(), "events.json")
	account := func(delta float64, event map[string]any) (answer claimed) {
		t.Helper()
		text, err := json.Marshal([]any{event})
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(file, text, 0o644))
		code, said, stderr := clitest.Call(conclave.Command(), clitest.At{State: t.TempDir()}, "privacy", "account",
			"--events", file, "--delta", strconv.FormatFloat(delta, 'g', -1, 64), "--format", "json")
		if code != 0 {
			t.Fatalf("%s: %s", text, stderr)
		}
		testkit.Must(t, json.Unmarshal([]byte(said), &answer))
		return answer
	}
	each := func(group string, check func(r referenceRow) (got, want float64, upTo bool)) {
		t.Helper()
		var rows []referenceRow
		if err := json.Unmarshal(groups[group], &rows); err != nil || len(rows) == 0 {
			t.Fatalf("group %s has %d rows (%v)", group, len(rows), err)
		}
		for i := 0; i < len(rows); i += 4 {
			got, want, upTo := check(rows[i])
			if got > want*(1+1e-6) || (!upTo && got < want*(1-1e-6)) {
				t.Errorf("%s, row %d: %.10g, the reference has %.10g", group, i, got, want)
			}
		}
	}
	const delta = 1e-5
	each("gaussian_composition_exact", func(r referenceRow) (float64, float64, bool) {
		a := account(r.Delta, map[string]any{
			"kind": "gaussian", "sigma": r.Sigma, "sensitivity": r.Sensitivity, "count": r.Compositions,
		})
		return a.Epsilon, r.Epsilon, false
	})
	each("poisson_subsampled_gaussian", func(r referenceRow) (float64, float64, bool) {
		a := account(r.Delta, map[string]any{
			"kind": "subsampled-gaussian", "rate": r.Rate, "noise_multiplier": r.Multiplier, "count": r.Steps,
		})
		if rdp := *a.ByAccountant["rdp"]; rdp > r.ByRDP*(1+1e-9) {
			t.Errorf("rdp %v, the reference has %v", rdp, r.ByRDP)
		}
		return a.Epsilon, r.ByPLD * (1 + 2e-3), true
	})
	each("pategan_moments_accountant", func(r referenceRow) (float64, float64, bool) {
		a := account(r.Delta, map[string]any{"kind": "lnmax", "lambda": r.Lambda, "votes": r.Votes})
		return *a.DataDependent.PATEGANMoments, r.Epsilon, false
	})
	each("gnmax", func(r referenceRow) (float64, float64, bool) {
		a := account(delta, map[string]any{"kind": "gnmax", "sigma": r.Sigma, "votes": []any{r.Votes}})
		return *a.DataDependent.RDP, bestEpsilon(r.Orders, r.DataDependent, delta), true
	})
	each("confident_threshold", func(r referenceRow) (float64, float64, bool) {
		// Not answered: only the test is charged.
		a := account(delta, map[string]any{
			"kind": "confident-gnmax", "threshold": r.Threshold, "sigma1": r.Sigma, "sigma2": 1,
			"answered": false, "votes": []any{r.Votes},
		})
		return *a.DataDependent.RDP, bestEpsilon(r.Orders, r.DataDependent, delta), true
	})
	each("lnmax", func(r referenceRow) (float64, float64, bool) {
		a := account(delta, map[string]any{"kind": "lnmax", "lambda": 1 / r.Scale, "votes": []any{r.Votes}})
		return *a.DataDependent.RDP, bestEpsilon(r.Orders, r.LNMaxRDP, delta), true
	})
	each("pgb_exponential_mechanism", func(r referenceRow) (float64, float64, bool) {
		a := account(r.Delta, map[string]any{"kind": "exponential", "epsilon": r.Epsilon0, "count": r.Rounds})
		return a.Epsilon, min(r.Basic, r.Advanced), true
	})
}
