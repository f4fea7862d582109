package teacher

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Classes of a PATE-GAN vote.
const (
	voteFake = 0
	voteReal = 1
)

// castVotes turns the teachers' scores, shape [teachers, queries], into one
// vote per teacher and query. Every rule casts exactly one vote of 0 or 1 per
// query, so a teacher moves a histogram by one vote whatever the rule is.
//
// The draws of a rule come from a seeded generator: they are part of training,
// repeat when a round is asked again, and protect nothing.
func castVotes(spec *conclavev1.TeacherSpec, round uint64, scores []float32, classes []int, teachers int) ([]uint8, error) {
	queries := len(classes)
	votes := make([]uint8, teachers*queries)
	byClass := make([][]int, spec.Classes)
	for q, c := range classes {
		byClass[c] = append(byClass[c], q)
	}
	var rule func(rng *rand.Rand, scores []float32, queries []int, votes []uint8)
	switch spec.Vote {
	case conclavev1.TeacherSpec_VOTE_RELATIVE:
		rule = voteRelative
	case conclavev1.TeacherSpec_VOTE_CALIBRATED:
		rule = voteCalibrated
	case conclavev1.TeacherSpec_VOTE_PLAIN:
		rule = votePlain
	case conclavev1.TeacherSpec_VOTE_COIN:
		rule = voteCoin
	default:
		return nil, fmt.Errorf("vote rule %v is not known to this node; update it", spec.Vote)
	}
	for t := range teachers {
		rng := rand.New(rand.NewPCG(spec.Seed, round<<32|uint64(t)))
		row := votes[t*queries : (t+1)*queries]
		for _, of := range byClass {
			if len(of) > 0 {
				rule(rng, scores[t*queries:(t+1)*queries], of, row)
			}
		}
	}
	return votes, nil
}

// voteRelative calls the better half of a class's queries real, ties broken by
// chance.
func voteRelative(rng *rand.Rand, scores []float32, queries []int, votes []uint8) {
	order := slices.Clone(queries)
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	for i, q := range order {
		if 2*i+1 < len(order) || (2*i+1 == len(order) && rng.IntN(2) == 0) {
			votes[q] = voteReal
		}
	}
}

// voteCalibrated calls a query real with probability sigmoid(score - median
// score of the class's queries). The share of real votes then carries the
// teachers' mean log-odds: it comes to rest at one half as generated records
// become like real ones, where voteRelative stays unanimous over any
// difference, however small.
func voteCalibrated(rng *rand.Rand, scores []float32, queries []int, votes []uint8) {
	sorted := make([]float32, len(queries))
	for i, q := range queries {
		sorted[i] = scores[q]
	}
	slices.Sort(sorted)
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	for _, q := range queries {
		if rng.Float32() < nn.Sigmoid(scores[q]-median) {
			votes[q] = voteReal
		}
	}
}

// votePlain is PATE-GAN's own rule: real above a score of zero.
func votePlain(_ *rand.Rand, scores []float32, queries []int, votes []uint8) {
	for _, q := range queries {
		if scores[q] > 0 {
			votes[q] = voteReal
		}
	}
}

// voteCoin is the baseline that has learned nothing.
func voteCoin(rng *rand.Rand, _ []float32, queries []int, votes []uint8) {
	for _, q := range queries {
		votes[q] = uint8(rng.IntN(2))
	}
}

// pack writes the votes teacher by teacher, each row padded to a whole byte,
// with the fewest of 1, 2, 4 or 8 bits per vote that hold the answer classes.
func pack(votes []uint8, teachers, queries int, answerClasses uint32) []byte {
	bits := 1
	for 1<<bits < answerClasses {
		bits *= 2
	}
	stride := (queries*bits + 7) / 8
	packed := make([]byte, teachers*stride)
	for t := range teachers {
		row := packed[t*stride : (t+1)*stride]
		for q, v := range votes[t*queries : (t+1)*queries] {
			row[q*bits/8] |= v << (q * bits % 8)
		}
	}
	return packed
}
