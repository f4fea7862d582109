package teachers

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/projection"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type gradientsAsked struct {
	asked
	// seen is the length of a gradient with respect to the features that teachers see; each is the number of
	// values that represent it.
	seen, each int
	// projection is nil if gradients are not projected.
	projection *projection.Projection
	// fixed converts a teacher's vector to integers, only for a sum.
	fixed gnmax.FixedPoint
}

// numbers is the length of a teacher's gradients at all records together.
func (g *gradientsAsked) numbers() int { return len(g.asked.queries.classes) * g.each }

// readGradients checks what votes on gradients and sums of gradients have in common. For votes the projection
// needs bins.
func readGradients(
	p *question.Public, q batch, to *conclavev1.Projection, clip float64, bins int,
) (*gradientsAsked, error) {
	a, err := readBatch(p, q)
	if err != nil {
		return nil, err
	}
	if a.vote != conclavev1.TeacherSpec_VOTE_GRADIENT && !a.coin() {
		return nil, fmt.Errorf("a question for gradients with the vote rule %v; use gradient", a.vote)
	}
	g := &gradientsAsked{asked: *a, each: p.Features}
	if a.spec.Cosines > 0 {
		g.each = a.spec.Cosines
	}
	g.seen = g.each
	if k := int(to.GetDirections()); k > 0 {
		g.each = k
		spec := projection.Spec{Features: g.seen, Directions: k, Clip: clip, Bins: bins}
		if g.projection, err = projection.New(spec, to.GetSeed()); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// steps calls visit with every teacher's steps at all records, shape [records, g.each]: a step is the direction in
// which its generator's loss falls. Several goroutines call visit concurrently; a vector is valid during the call.
func (l *lesson) steps(g *gradientsAsked, visit func(teacher int, steps []float32) error) error {
	n := len(l.queries.classes)
	pool := sync.Pool{New: func() any {
		return &stepper{out: make([]float32, n*g.seen), projected: make([]float32, n*g.each)}
	}}
	var mu sync.Mutex
	var failed error
	err := l.gradients(func(teacher int, dx []float32) {
		s := pool.Get().(*stepper)
		defer pool.Put(s)
		if err := visit(teacher, s.steps(l, g, dx)); err != nil {
			mu.Lock()
			failed = err
			mu.Unlock()
		}
	})
	return errors.Join(err, failed)
}

// stepper is the memory of one goroutine.
type stepper struct{ out, projected []float32 }

// steps converts gradients with respect to a network's inputs to steps of records: in the units of the features
// that the network sees, without the class, and projected if requested.
func (s *stepper) steps(l *lesson, g *gradientsAsked, dx []float32) []float32 {
	n, features := len(l.queries.classes), g.seen
	in := len(dx) / n
	for i := range n {
		from, x := dx[i*in:(i+1)*in], l.queries.x[i*in:(i+1)*in]
		to := s.out[i*features : (i+1)*features]
		for j := range to {
			to[j] = -from[j]
		}
		if l.units != nil {
			for k, j := range l.site.Numbers {
				to[j] -= from[features+k] * scaling.SquareSlope(x[j])
			}
		}
	}
	if g.projection == nil {
		return s.out
	}
	g.projection.Project(s.projected, s.out, n)
	return s.projected
}

// gradientVotes returns the teachers' votes on the bins of their steps, shape [teachers,
// numbers].
func (l *lesson) gradientVotes(g *gradientsAsked, round uint64) ([]uint8, error) {
	queries, bins := g.numbers(), g.projection.Spec().Bins
	votes := make([]uint8, g.spec.Models*queries)
	if g.coin() {
		for i := range g.spec.Models {
			rng := chance(g.spec.Seed, round, i)
			for q := range queries {
				votes[i*queries+q] = uint8(rng.IntN(bins))
			}
		}
	} else if err := l.steps(g, func(teacher int, steps []float32) error {
		g.projection.Discretize(votes[teacher*queries:(teacher+1)*queries], steps, teacher)
		return nil
	}); err != nil {
		return nil, err
	}
	return votes, nil
}

// gradientSum returns the sum of the teachers' clipped steps in fixed point. Integer sums do not depend on their
// order.
func (l *lesson) gradientSum(g *gradientsAsked, round uint64) ([]int64, error) {
	sum := make([]int64, g.numbers())
	var mu sync.Mutex
	add := func(vector []float32) error {
		steps, err := gnmax.Encode(g.fixed, vector)
		if errors.Is(err, gnmax.ErrVector) {
			return nil // a diverged teacher counts as zeros: that it diverged depends on its records
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, v := range steps {
			sum[i] += v
		}
		return nil
	}
	if !g.coin() {
		return sum, l.steps(g, func(_ int, steps []float32) error { return add(steps) })
	}
	random := make([]float32, len(sum))
	length := g.fixed.Clip() / math.Sqrt(float64(len(random)))
	for i := range g.spec.Models {
		rng := chance(g.spec.Seed, round, i)
		for j := range random {
			random[j] = float32(length * rng.NormFloat64())
		}
		if err := add(random); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// chance is the generator for one teacher's draws in a round. They protect nothing.
func chance(seed, round uint64, teacher int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, round<<32|uint64(teacher)))
}
