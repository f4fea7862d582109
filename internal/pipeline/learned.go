package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// ErrDiverged means that a student's weight became NaN or infinite. A new attempt ends the same way, since the
// questions follow from the seed.
var ErrDiverged = errors.New("training diverged")

// Learned is what a student stores about its releases, without the answers.
type Learned struct {
	// Counts are the released class counts, nil before the release.
	Counts []float64 `json:"counts"`
	// CountScale is the scale of their noise.
	CountScale float64 `json:"count_scale"`
	// Begun is the number of steps by which the generator was fitted to a start; see [Start].
	Begun int `json:"begun,omitempty"`
	// Spent is the run's total after the last release.
	Spent float64 `json:"spent"`
	// Receipts are the receipts of all releases that the student learned from, in order. They show that a
	// ledger was charged for everything it knows.
	Receipts []string `json:"receipts"`
	// TeachersLeast is the smallest number of teachers that took part in a round, 0 before the first. It is
	// public, since connections do not depend on records.
	TeachersLeast int `json:"teachers_least"`
}

// CountOracle answers the question for class counts.
type CountOracle interface {
	ClassCounts(ctx context.Context, round uint64, classes int) (*CountAnswer, error)
}

// AskClassCounts asks for the class counts in round 0, unless they were released before.
func (l *Learned) AskClassCounts(ctx context.Context, oracle CountOracle, classes int) error {
	if l.Counts != nil {
		return nil
	}
	a, err := oracle.ClassCounts(ctx, 0, classes)
	if err != nil {
		return err
	}
	if len(a.Counts) != classes {
		return fmt.Errorf("pipeline: %d class counts for %d classes", len(a.Counts), classes)
	}
	l.Counts, l.CountScale = a.Counts, a.Scale
	l.tookPart(a.Paid)
	return nil
}

// Took records a release.
func (l *Learned) Took(p Paid) {
	l.Spent = p.EpsilonSpent
	l.tookPart(p)
}

func (l *Learned) tookPart(p Paid) {
	l.Receipts = append(l.Receipts, p.Receipt)
	if l.TeachersLeast == 0 || p.Teachers < l.TeachersLeast {
		l.TeachersLeast = p.Teachers
	}
}

// Notes returns the notes. It gives students that embed a Learned this method.
func (l *Learned) Notes() *Learned { return l }

// Records is the public number of privacy units: the configured number, or the sum of the released class
// counts.
func (l *Learned) Records(set int) (int, error) {
	if set > 0 {
		return set, nil
	}
	if len(l.Counts) == 0 {
		return 0, errors.New("the run has no class counts; set the public number of privacy units in records")
	}
	var sum float64
	for _, c := range l.Counts {
		sum += c
	}
	return int(math.Min(math.Max(math.Round(sum), 1), MostUnits)), nil
}

// Shares returns the released class shares.
func (l *Learned) Shares() []float64 { return Shares(l.Counts, l.CountScale) }

// fits tells whether the notes can belong to a student with this many rounds of answers.
func (l *Learned) fits(rounds, classes int) bool {
	return l.Counts == nil || len(l.Counts) == classes && len(l.Receipts) == rounds+1
}

// Shares turns noisy class counts into shares. A count below the scale of its noise counts as that scale: the
// noise hides how rare the class is, and a schema names only classes that occur. With a scale of 0, negative
// counts count as zero, and all-zero counts as equal shares. This is post-processing of the release.
func Shares(counts []float64, scale float64) []float64 {
	shares := make([]float64, len(counts))
	var sum float64
	for _, c := range counts {
		sum += max(scale, c)
	}
	for i, c := range counts {
		if sum > 0 {
			shares[i] = max(scale, c) / sum
		} else {
			shares[i] = 1 / float64(len(counts))
		}
	}
	return shares
}
