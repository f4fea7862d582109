package teachers

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/output"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Classes of a PATE-GAN vote.
const (
	voteFake = 0
	voteReal = 1
)

// voter casts the votes of one teacher after another.
//
// Its draws come from a seeded generator. They protect nothing: a teacher always casts one vote of 0 or 1 on each
// query, so its records move a histogram by one vote, which the aggregator's noise hides. The draws must differ
// between teachers and repeat when a round is asked again.
type voter struct {
	pcg *rand.PCG
	rng *rand.Rand
	// order and sorted are scratch memory for the rules.
	order  []int
	sorted []float32
}

// rule casts one teacher's votes on queries of one class, given by their indexes in scores and votes; votes start
// as fake.
type rule func(v *voter, votes []uint8, scores []float32, queries []int)

func ruleOf(vote conclavev1.TeacherSpec_Vote) rule {
	switch vote {
	case conclavev1.TeacherSpec_VOTE_RELATIVE:
		return (*voter).relative
	case conclavev1.TeacherSpec_VOTE_CALIBRATED:
		return (*voter).calibrated
	case conclavev1.TeacherSpec_VOTE_PLAIN:
		return (*voter).plain
	case conclavev1.TeacherSpec_VOTE_COIN:
		return (*voter).coin
	}
	return nil
}

func knownVote(vote conclavev1.TeacherSpec_Vote) bool { return ruleOf(vote) != nil }

// castVotes turns the teachers' scores, shape [teachers, len(classes)], into
// one vote per teacher and query, in the same shape. The rule must be known.
func castVotes(vote conclavev1.TeacherSpec_Vote, seed, round uint64, scores []float32, classes []int) []uint8 {
	var byClass [][]int
	for q, c := range classes {
		for len(byClass) <= c {
			byClass = append(byClass, nil)
		}
		byClass[c] = append(byClass[c], q)
	}
	cast, queries := ruleOf(vote), len(classes)
	votes := make([]uint8, len(scores))
	v := &voter{pcg: rand.NewPCG(0, 0)}
	v.rng = rand.New(v.pcg)
	for at := 0; at < len(scores); at += queries {
		v.pcg.Seed(seed, round<<32|uint64(at/queries))
		for _, of := range byClass {
			if len(of) > 0 {
				cast(v, votes[at:at+queries], scores[at:at+queries], of)
			}
		}
	}
	return votes
}

// relative calls the better half of a class's queries real. Ties, and the middle one of an odd number, are decided
// at random.
func (v *voter) relative(votes []uint8, scores []float32, queries []int) {
	v.order = append(v.order[:0], queries...)
	v.rng.Shuffle(len(v.order), func(i, j int) { v.order[i], v.order[j] = v.order[j], v.order[i] })
	slices.SortStableFunc(v.order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	half := len(v.order) / 2
	if len(v.order)%2 == 1 {
		half += v.rng.IntN(2)
	}
	for _, q := range v.order[:half] {
		votes[q] = voteReal
	}
}

// calibrated calls a query real with probability sigmoid(score - median score of the class's queries). The share
// of real votes then encodes the teachers' mean log-odds. It converges to one half as generated records become
// like real ones, whereas relative stays unanimous for any difference, however small.
func (v *voter) calibrated(votes []uint8, scores []float32, queries []int) {
	v.sorted = v.sorted[:0]
	for _, q := range queries {
		v.sorted = append(v.sorted, scores[q])
	}
	slices.Sort(v.sorted)
	n := len(v.sorted)
	median := (v.sorted[(n-1)/2] + v.sorted[n/2]) / 2
	for _, q := range queries {
		if v.rng.Float32() < output.Sigmoid(scores[q]-median) {
			votes[q] = voteReal
		}
	}
}

// plain is PATE-GAN's own rule: real above a score of zero.
func (v *voter) plain(votes []uint8, scores []float32, queries []int) {
	for _, q := range queries {
		if scores[q] > 0 {
			votes[q] = voteReal
		}
	}
}

// coin is the baseline that learns nothing.
func (v *voter) coin(votes []uint8, _ []float32, queries []int) {
	for _, q := range queries {
		votes[q] = uint8(v.rng.IntN(2))
	}
}
