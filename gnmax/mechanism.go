package gnmax

import (
	"errors"
	"fmt"
)

// Mechanism answers queries from histograms of votes in which one privacy unit moves at most one vote from one bin to
// another. Mechanisms are immutable and safe for concurrent use.
//
// A mechanism does no accounting. The comment of each names the event of package privacy that pays for a query:
// checked by the budget's filter before the question is asked, and charged to the ledger before the answer is given.
type Mechanism interface {
	// Answer decides one query. counts has one entry per class.
	Answer(src *Source, counts []int64) (Answer, error)
}

// Answer is what may leave the aggregator.
type Answer struct {
	// Answered is false if the confidence threshold was not reached.
	Answered bool
	// Winner is the class with the largest noisy count, -1 when unanswered.
	// Equal counts are decided by lot.
	Winner int
	// Noisy holds the noisy counts of all classes. It is nil unless the query was answered and the mechanism releases
	// whole histograms.
	Noisy []int64
}

// maxCount keeps sums of counts and noise far from the ends of int64.
const maxCount = 1 << 61

// ErrHistogram matches, with errors.Is, the error for a histogram that cannot be answered. The message contains no
// count.
var ErrHistogram = errors.New("unusable histogram of votes")

func checkHistogram(counts []int64) error {
	if len(counts) < 2 {
		return fmt.Errorf("%w: it has %d classes, a vote needs at least 2", ErrHistogram, len(counts))
	}
	voted := false
	for class, c := range counts {
		if c < 0 || c > maxCount {
			return fmt.Errorf("%w: the count of class %d is negative or too large", ErrHistogram, class)
		}
		voted = voted || c > 0
	}
	if !voted {
		return fmt.Errorf("%w: nobody voted", ErrHistogram)
	}
	return nil
}

// addNoise returns each number with its own noise. noise fills a slice with independent draws.
func addNoise(numbers []int64, noise func([]int64) error) ([]int64, error) {
	noisy := make([]int64, len(numbers))
	if err := noise(noisy); err != nil {
		return nil, err
	}
	for i, x := range numbers {
		noisy[i] += x
	}
	return noisy, nil
}

// noisyAnswer adds noise to the counts and finds the largest. Everything after
// the noise is post-processing.
func noisyAnswer(src *Source, counts []int64, whole bool, noise func([]int64) error) (Answer, error) {
	noisy, err := addNoise(counts, noise)
	if err != nil {
		return Answer{}, err
	}
	winner, err := src.largest(noisy)
	if err != nil {
		return Answer{}, err
	}
	if !whole {
		noisy = nil
	}
	return Answer{Answered: true, Winner: winner, Noisy: noisy}, nil
}

// largest returns the place of the largest number, by lot among equal ones: the
// i-th of them replaces those before it with probability 1/i.
func (s *Source) largest(numbers []int64) (int, error) {
	best, ties := 0, uint64(1)
	for i := 1; i < len(numbers); i++ {
		switch {
		case numbers[i] > numbers[best]:
			best, ties = i, 1
		case numbers[i] == numbers[best]:
			ties++
			among := ties // so that only a tie costs an allocation
			lot, err := s.draw(func(d *draws) int64 { return int64(d.uniform(among)) })
			if err != nil {
				return 0, err
			}
			if lot == 0 {
				best = i
			}
		}
	}
	return best, nil
}
