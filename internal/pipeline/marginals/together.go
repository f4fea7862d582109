package marginals

import (
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A sum of signs has one number for each pair of columns: the number of records that are in the upper part of
// both or of neither, less the number of the other records. It shows how columns correlate with a fourth of the
// cells of the smallest tables, and with half of their noise.
//
// Why it is private: a record adds w times 1 or -1 to every entry, so it adds a vector of norm w sqrt(entries)
// for any values; an empty value has a sign as well. The records of a unit share w as in tables.
//
// Source: the signs' correlation is 2/pi arcsin of the correlation of normal columns (Sheppard 1899).

// addTogether asks for all pairs of columns with a weight.
func (a *asked) addTogether(weight int64) {
	a.together, a.entries = weight, pairsAmong(len(a.columns))
	a.close()
}

// pairsAmong is the number of pairs of this many columns.
func pairsAmong(columns int) int { return columns * (columns - 1) / 2 }

// parseTogether checks the remaining fields of a question for all pairs.
func (a *asked) parseTogether(m *conclavev1.MarginalsQuestion) error {
	if len(m.GetFirst())+len(m.GetSecond())+len(m.GetWeights()) > 0 {
		return fmt.Errorf("a sum of all pairs has tables; ask for them in another")
	}
	for i := range a.columns {
		if c := &a.columns[i]; !c.sign {
			return fmt.Errorf("column %q of a sum of all pairs is not a sign; make it one", c.of.Name)
		}
	}
	switch pairs, w := pairsAmong(len(a.columns)), int64(m.GetTogether()); {
	case pairs < 1 || pairs > maxEntries:
		return fmt.Errorf("a sum of %d pairs; ask for 1 to %d", pairs, maxEntries)
	case w > mostBound:
		return fmt.Errorf("pairs have the weight %d; use 1 to %d", w, mostBound)
	default:
		a.addTogether(w)
	}
	if a.bound > mostBound {
		return fmt.Errorf("a unit adds a vector of norm %d, and %d is the most; lower the weight", a.bound, mostBound)
	}
	return nil
}

// countTogether adds a record in these cells to a sum of all pairs.
func (a *asked) countTogether(at []int, nth, of int, sum []int64) {
	part, left := a.together/int64(of), int(a.together%int64(of))
	turn := nth % of
	for i, first := range at {
		for _, second := range at[i+1:] {
			add := part
			if turn < left {
				add++
			}
			if turn++; turn == of {
				turn = 0
			}
			if first != second {
				add = -add
			}
			sum[0] += add
			sum = sum[1:]
		}
	}
}
