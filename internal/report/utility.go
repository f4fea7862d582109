package report

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// utilityTable shows every classifier in the settings of the PATE-GAN paper.
type utilityTable struct {
	Rows          []utilityRow
	A, B, C, Coin bool // settings that are known for at least one classifier
	Low           string
	Guess         float64 // where 0.5 lies on a strip
	// Agreements are the two figures about all classifiers together, in words.
	Agreements []finding
}

type utilityRow struct {
	evaluate.ModelUtility
	// Positions on a strip from the table's lowest figure to 1; negative if the figure is unknown.
	AtA, AtB, AtC, AtCoin float64
}

const stripWidth = 160

// newUtilityTable gives nil when nothing was measured.
func newUtilityTable(e *evaluate.Evaluation) *utilityTable {
	if e == nil || len(e.Utility) == 0 {
		return nil
	}
	t := &utilityTable{}
	lowest := 0.5
	for _, m := range e.Utility {
		for _, r := range []struct {
			ranking *evaluate.Ranking
			known   *bool
		}{{m.A, &t.A}, {m.B, &t.B}, {m.C, &t.C}, {m.CoinFlips, &t.Coin}} {
			if r.ranking != nil {
				*r.known = true
				lowest = math.Min(lowest, r.ranking.AUROC)
			}
		}
	}
	lowest = math.Max(0, math.Floor(lowest*10-0.1)/10)
	place := func(v float64) float64 { return 4 + (v-lowest)/(1-lowest)*(stripWidth-8) }
	at := func(r *evaluate.Ranking) float64 {
		if r == nil {
			return -1
		}
		return place(r.AUROC)
	}
	for _, m := range e.Utility {
		t.Rows = append(t.Rows, utilityRow{ModelUtility: m, AtA: at(m.A), AtB: at(m.B), AtC: at(m.C),
			AtCoin: at(m.CoinFlips)})
	}
	t.Low, t.Guess = fmt.Sprintf("%.1f", lowest), place(0.5)
	if v := e.RankingAgreement; v != nil {
		says := "The share of pairs of models that have the same order on synthetic rows alone (C) as on real rows " +
			"alone (A). With 1, the best model can be chosen on the synthetic rows; 0.5 is chance."
		if len(e.Utility) == 2 {
			says += " Two models are one pair: the figure is 0 or 1, and says little."
		}
		t.Agreements = append(t.Agreements, finding{"Ranking agreement of models (SRA)", text.Score(*v), says})
	}
	if v := e.ImportanceAgreement; v != nil {
		t.Agreements = append(t.Agreements, finding{"Agreement on column importance", text.Score(*v),
			"The share of pairs of columns whose importance for the label has the same order in synthetic and real " +
				"rows. 1 is ideal; 0.5 is chance."})
	}
	return t
}

// settings explain the columns of the table, in its order.
func (t *utilityTable) settings() []finding {
	var list []finding
	for _, s := range []struct {
		known      bool
		name, says string
	}{
		{t.A, "A", "Trained on real rows and tested on real rows: the ceiling."},
		{t.B, "B", "Trained on synthetic rows and tested on real rows: the value of the synthetic rows."},
		{t.C, "C", "Trained on synthetic rows and tested on synthetic rows: the figure of a user without real rows. " +
			"It " + misleads},
		{t.Coin, coinFlips, "As B, with rows of the same run in which coins voted in place of teachers: the result " +
			"of learning nothing."},
	} {
		if s.known {
			list = append(list, finding{Name: s.name, Says: s.says})
		}
	}
	return list
}

// misleads accompanies every score of synthetic rows on synthetic rows.
const misleads = "misleads: rows that are wrong or very similar predict themselves well and score high. Use B."

// Settings is settings, for the templates.
func (t *utilityTable) Settings() []finding { return t.settings() }

const coinFlips = "Coin flips"
