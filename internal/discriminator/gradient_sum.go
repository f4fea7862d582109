package discriminator

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// GradientSum asks for the sum of the gradients of a discriminator's loss over a sample of
// the privacy units.
var GradientSum = question.Kind{Name: "discriminator", Read: question.Typed(readGradientSum), Divides: true}

func readGradientSum(p *question.Public, q *conclavev1.DiscriminatorSum) (*question.Checked, error) {
	var loss losses.Loss
	switch q.Loss {
	case conclavev1.DiscriminatorSum_LOSS_LOGISTIC:
		loss = losses.Logistic
	case conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN:
		loss = losses.Wasserstein
	default:
		return nil, fmt.Errorf("discriminator loss %v is unknown to this node; use logistic or wasserstein, or "+
			"update the node",
			q.Loss)
	}
	if err := question.CheckClip(q.Clip); err != nil {
		return nil, err
	}
	if err := question.CheckBound("gradients", q.Bound); err != nil {
		return nil, err
	}
	rate, err := gnmax.NewRate(q.Rate)
	if err != nil {
		return nil, err
	}
	net, err := Described(p, q.Discriminator, q.Weights, q.Mean, q.Scale)
	if err != nil {
		return nil, err
	}
	sums, err := question.Memory[clipped](p).of(net, q.Clip, int64(q.Bound))
	if err != nil {
		return nil, err
	}
	return &question.Checked{
		Shape: question.Shape{Sum: &question.Vector{
			Entries: net.Parameters(), Bound: int64(q.Bound), Rate: rate.Float(),
		}},
		Baseline: q.Nothing,
		Sum: func(s *question.Site, r question.Round) ([]int64, error) {
			if q.Nothing {
				return make([]int64, net.Parameters()), nil
			}
			return s.Once(r, func() ([]int64, error) {
				sums.Reset()
				if err := addSample(sums, s, net, rate, loss); err != nil {
					return nil, err
				}
				return slices.Clone(sums.Sum()), nil
			})
		},
	}, nil
}

// clipped is the sum of clipped gradients that a node was asked for last, with its memory: x holds the records of
// a part of a sample, inputs what the network sees of them.
type clipped struct {
	net       *Discriminator
	clip      float64
	bound     int64
	sums      *nn.ClippedSteps
	x, inputs []float32
	work      int // records that passed through the network, over all samples
}

// of makes a sum of gradients with this clip norm and bound, or returns the last one.
func (c *clipped) of(net *Discriminator, clip float64, bound int64) (*nn.ClippedSteps, error) {
	if c.net == net && c.clip == clip && c.bound == bound {
		return c.sums, nil
	}
	sums, err := nn.NewClippedSteps(net.Net, clip, bound)
	if err != nil {
		return nil, err
	}
	c.net, c.clip, c.bound, c.sums = net, clip, bound, sums
	return sums, nil
}

// chunk is the number of units processed at a time: it bounds the memory.
const chunk = 512

// filling is the number to whose multiple the records of a sample are padded. A node with few records in its
// sample does the same work as a node with none.
const filling = 32

// mostRecords is the number of a unit's records that a step computes: otherwise the time of a step would reveal
// whether a very large unit is in its sample. The records are chosen at random in each step, so the expected
// gradient is that of all records. The bound holds for any choice.
const mostRecords = 256

// some returns the records of a unit that a step computes: at most mostRecords consecutive ones from a random one
// on, cyclically. The draw protects nothing.
func some(unit []question.Place) []question.Place {
	if len(unit) <= mostRecords {
		return unit
	}
	first := rand.IntN(len(unit))
	return slices.Concat(unit[first:], unit[:first])[:mostRecords]
}

// nothing is the loss of records that add nothing.
func nothing(grad, _ []float32, _ bool) float64 {
	clear(grad)
	return 0
}

// addSample adds the clipped gradients of a sample of the site's privacy units, in whole steps.
//
// Each unit adds an integer vector with an L2 norm of at most the bound, which does not depend on other units. A
// node with an empty sample answers with zeros of the same length, after as much work as a node with a few units:
// see filling. The size and the members of the sample are not stored. A repeated question gets the same answer:
// see [question.Site.Once].
func addSample(sums *nn.ClippedSteps, s *question.Site, net *Discriminator, rate gnmax.Rate, loss losses.Loss) error {
	if err := s.Divide(); err != nil {
		return err
	}
	sample, err := s.Sample(rate)
	if err != nil {
		return err
	}
	space := question.Memory[clipped](s.Public)
	var classes, records []int
	rows := 0
	for len(sample) > 0 {
		if err := s.Wanted(); err != nil {
			return err
		}
		part := sample[:min(chunk, len(sample))]
		sample = sample[len(part):]
		x := space.x[:0]
		classes, records = classes[:0], records[:0]
		for _, u := range part {
			unit := some(s.Unit(u))
			for _, r := range unit {
				x = s.AppendRecord(x, r)
				classes = append(classes, r.Class)
			}
			records = append(records, len(unit))
		}
		rows += len(classes)
		space.x, space.inputs = x, net.Inputs(space.inputs[:0], x, classes)
		if err := sums.Add(space.inputs, records, net.Heads(classes), loss); err != nil {
			return err
		}
	}
	more := filling - rows%filling
	if more == filling && rows > 0 {
		more = 0
	}
	space.work += rows + more
	classes, records = make([]int, more), slices.Repeat([]int{1}, more)
	space.inputs = net.Inputs(space.inputs[:0], make([]float32, more*s.Features), classes)
	return sums.Add(space.inputs, records, net.Heads(classes), nothing)
}
