package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

func says(t *testing.T, list []finding, name, value string, parts ...string) {
	t.Helper()
	for _, f := range list {
		if f.Name != name {
			continue
		}
		if f.Value != value {
			t.Errorf("%s is %q, want %q", name, f.Value, value)
		}
		for _, part := range parts {
			if !strings.Contains(f.Says, part) {
				t.Errorf("%s says %q, want %q in it", name, f.Says, part)
			}
		}
		return
	}
	t.Errorf("nothing is said of %s", name)
}

func TestFindings(t *testing.T) {
	e := evaluation()
	list := findings(e)
	// The means are over the models that know both settings.
	says(t, list, "Useful for prediction", "0.739", "2 models on average", "reached 0.891", "keep 54%",
		"coin flips give 0.457")
	says(t, list, "Single columns", "70%", "creatinine, with 47%")
	says(t, list, "Pairs of columns", "87%", "creatinine with year, with 70%")
	says(t, list, "Distinguishable", "6.4", "About 2 is ideal")
	says(t, list, "Memorized training rows", "no sign", "no closer")

	e.Closeness.TestInTrain = 1
	says(t, findings(e), "Memorized training rows", "cannot be told", "100% of the test rows equal a training row. "+
		"Memorized")
	e.Closeness.TestInTrain = 0.1
	// 54 copies of training rows among 6,000, and none of test rows.
	e.Closeness.CopiesTrain, e.Closeness.CopiesTest = 0.009, 0
	says(t, findings(e), "Memorized training rows", "look closer")
	e.Closeness.CopiesTrain, e.Closeness.CopiesTest = 0.009, 0.008
	says(t, findings(e), "Memorized training rows", "no sign")
	e.Closeness.MembershipAUROC = 0.7
	e.Utility = e.Utility[1:]
	e.Utility[0].B = &evaluate.Ranking{AUROC: 0.45}
	e.Columns = e.Columns[:1]
	list = findings(e)
	says(t, list, "Memorized training rows", "look closer")
	says(t, list, "Useful for prediction", "0.450", "one model reached", "no better than guessing")
	says(t, list, "Single columns", "93%")
	if len(findings(nil)) != 0 || len(findings(&evaluate.Evaluation{})) != 0 {
		t.Error("something is said of an evaluation that measured nothing")
	}
}

func TestUtilityTable(t *testing.T) {
	table := newUtilityTable(evaluation())
	if table.Low != "0.4" || len(table.Rows) != 2 || !table.A || !table.B || !table.C || !table.Coin {
		t.Errorf("the table is %+v", table)
	}
	// 0.5 is a sixth of the way from 0.4 to 1, less the margins.
	if want := 4 + 152.0/6; table.Guess < want-1e-9 || table.Guess > want+1e-9 {
		t.Errorf("guessing stands at %v, want %v", table.Guess, want)
	}
	if row := table.Rows[0]; row.AtA >= 0 || row.AtB <= table.Guess || row.AtCoin >= table.Guess || row.AtC <= row.AtB {
		t.Errorf("the first row is %+v", row)
	}
	plain := table.plain()
	if got := strings.Join(plain.Rows[0],
		"; "); got != "logistic regression; –; 0.765 (0.543); 0.810 (0.600); 0.457 (0.300)" {
		t.Errorf("the first row reads %s", got)
	}
	if newUtilityTable(&evaluate.Evaluation{}) != nil {
		t.Error("no models gave a table")
	}
}

// A bad classifier may rank worse than guessing, down to 0.
func TestUtilityTableStaysInItsStrip(t *testing.T) {
	for _, auroc := range []float64{0, 0.05, 0.5, 1} {
		table := newUtilityTable(&evaluate.Evaluation{
			Utility: []evaluate.ModelUtility{{Model: "m", B: &evaluate.Ranking{AUROC: auroc}}}})
		if at := table.Rows[0].AtB; at < 4 || at > stripWidth-4 {
			t.Errorf("an AUROC of %v stands at %v", auroc, at)
		}
	}
}

// The largest pMSE is c(1-c) with c the share of synthetic rows.
func TestPropensitySaysTheMostThatItCanBe(t *testing.T) {
	e := evaluation()
	for ratio, most := range map[float64]string{2: "is 0.25)", 5: "is 0.16)", 0: "near 0 and"} {
		e.Propensity.RatioOfEqual = ratio
		if says := propensity(e).Says; !strings.Contains(says, most) {
			t.Errorf("with a ratio of equal rows of %v it says %q", ratio, says)
		}
	}
}

// The figures of images are in all three reports, with coin flips if they are known.
func TestFindingsOfImages(t *testing.T) {
	e := &evaluate.Evaluation{Rows: evaluate.Rows{Synthetic: 9, Test: 9},
		Images: &evaluate.ImageQuality{AccuracySynthetic: 0.71, AccuracyReal: 0.97, ScoreReal: 9.1,
			ScoreSynthetic: 6.2, FrechetDistance: 31.5}}
	said := func() string { return fmt.Sprint(findings(e), measurements(e)) }
	if text := said(); !strings.Contains(text, "0.710") ||
		!strings.Contains(text, "half of the real test images, it reached 0.970") ||
		strings.Contains(text, "oin flips") {
		t.Error(text)
	}
	e.Rows.Train = 9
	e.Images.AccuracyCoinFlips, e.Images.ScoreCoinFlips, e.Images.FrechetCoinFlips = some(0.12), some(1.5), some(99)
	e.Images.FrechetByClass, e.Images.ByClassCoinFlips = some(42.5), some(88)
	if text := said(); !strings.Contains(text,
		"images of the training, it reached 0.970. Images of coin flips give 0.120") ||
		!strings.Contains(text, "31.5  99") || !strings.Contains(text, "42.5  88") {
		t.Error(text)
	}
}
