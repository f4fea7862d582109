package measure

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRankingByHand(t *testing.T) {
	cases := []struct {
		name     string
		positive []bool
		scores   []float64
		auroc    float64
		ap       float64
	}{
		{"perfect", []bool{true, true, false}, []float64{3, 2, 1}, 1, 1},
		{"reversed", []bool{true, false, false}, []float64{1, 2, 3}, 0, 1.0 / 3},
		{"all tied", []bool{true, false, false, true}, []float64{5, 5, 5, 5}, 0.5, 0.5},
		// Pairs: (0.8 beats 0.4 and 0.1) + (0.35 beats 0.1, loses to 0.4) = 3 of 4.
		{"textbook", []bool{false, false, true, true}, []float64{0.1, 0.4, 0.35, 0.8}, 0.75, 0.5 + 0.5*2.0/3},
		// One positive tied with one negative at the top: half a win, then a full one.
		{"tie across classes", []bool{true, false, true, false}, []float64{2, 2, 1, 0}, 2.5 / 4, 0.5*0.5 + 0.5*2.0/3},
		{"infinite scores", []bool{true, false, true}, []float64{math.Inf(1), math.Inf(-1), 0}, 1, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, err := AUROC(c.positive, c.scores, nil); err != nil || math.Abs(got-c.auroc) > 1e-12 {
				t.Errorf("AUROC = %v, %v; want %v", got, err, c.auroc)
			}
			if got, err := AveragePrecision(c.positive, c.scores, nil); err != nil || math.Abs(got-c.ap) > 1e-12 {
				t.Errorf("AveragePrecision = %v, %v; want %v", got, err, c.ap)
			}
		})
	}
}

func TestRankingRefuses(t *testing.T) {
	cases := []struct {
		name     string
		positive []bool
		scores   []float64
		says     string
		oneClass bool
	}{
		{"no rows", nil, nil, "no rows", true},
		{"positives only", []bool{true, true}, []float64{1, 2}, "all 2 are positive", true},
		{"negatives only", []bool{false}, []float64{1}, "all 1 are negative", true},
		{"not a number", []bool{true, false}, []float64{1, math.NaN()}, "row 2", false},
		{"lengths", []bool{true, false}, []float64{1}, "2 labels but 1 scores", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for name, f := range map[string]func([]bool, []float64, []float64) (float64, error){"AUROC": AUROC,
				"AveragePrecision": AveragePrecision} {
				_, err := f(c.positive, c.scores, nil)
				if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrOneClass) != c.oneClass {
					t.Errorf("%s: %v; want an error saying %q, one class %v", name, err, c.says, c.oneClass)
				}
			}
		})
	}
}

// The pair count is the definition; the ranked form must agree with it and have its symmetries.
func TestAUROCIsThePairCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		positive := make([]bool, n)
		scores := make([]float64, n)
		for i := range n {
			positive[i] = rapid.Bool().Draw(t, "positive")
			scores[i] = float64(rapid.IntRange(-4, 4).Draw(t, "score"))
		}
		positive[0], positive[1] = true, false
		var wins, pairs float64
		for i := range n {
			for j := range n {
				if positive[i] && !positive[j] {
					pairs++
					switch {
					case scores[i] > scores[j]:
						wins++
					case scores[i] == scores[j]:
						wins += 0.5
					}
				}
			}
		}
		got, err := AUROC(positive, scores, nil)
		if err != nil || math.Abs(got-wins/pairs) > 1e-12 {
			t.Fatalf("AUROC = %v, %v; pairs say %v", got, err, wins/pairs)
		}
		negated, monotone := make([]float64, n), make([]float64, n)
		for i, s := range scores {
			negated[i], monotone[i] = -s, math.Exp(s)
		}
		if down, _ := AUROC(positive, negated, nil); math.Abs(got+down-1) > 1e-12 {
			t.Fatalf("AUROC of negated scores is %v, want %v", down, 1-got)
		}
		if same, _ := AUROC(positive, monotone, nil); math.Abs(same-got) > 1e-12 {
			t.Fatalf("AUROC of a monotone map is %v, want %v", same, got)
		}
	})
}
