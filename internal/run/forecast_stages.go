package run

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// stageMessages are what a node sends, and is sent, after the training.
func stageMessages(s *Spec, schema *partition.Schema, p *Plan) (leaving, arriving []Message) {
	e := encode.New(schema)
	sum := func(numbers int, largest int64) int {
		return proto.Size(&conclavev1.WorkRequest{Attempt: math.MaxUint32, Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: s.Name, Round: math.MaxUint32, Values: slices.Repeat([]int64{largest}, numbers),
		}}})
	}
	add := func(answer Message, asked, content string) {
		leaving, arriving = append(leaving, answer), append(arriving, Message{Name: asked, Content: content})
	}
	if q, ok := p.Stages.Of(runspec.Selections); ok {
		n, _ := s.Kept()
		add(Message{"score sums", fmt.Sprintf("%d numbers: the sum over the site's privacy units of what each stored discriminator gives them; the aggregator keeps it in memory, and releases %d selections", n, q.Count),
			1, sum(n, pipeline.MostUnits*scoreBound)},
			"discriminators", fmt.Sprintf("the weights of %d stored discriminators, once; nobody's data", n))
	}
	if iw.Fits(s.Weights) {
		width := iw.Width(e, p.Classes, runfile.Section[iw.Options](s).Squares)
		numbers := width + ratio.Triangle(width)
		add(Message{"derivatives", fmt.Sprintf("%d numbers: the sum over the site's privacy units of first and second derivatives of a regression's loss, mostly 12 times; the aggregator sees it, and releases %d coefficients with noise only", numbers, width),
			mostPasses, sum(numbers, ratio.MostUnits*ratio.FinestBound)},
			"coefficients", fmt.Sprintf("%d numbers, as often: the coefficients so far, WITHOUT NOISE; they come of all sites' records", width))
	}
	if q, ok := p.Stages.Of(runspec.Sampled); ok {
		n := iw.Parameters(e, p.Classes, runfile.Section[iw.Options](s).MLP.Hidden)
		add(Message{"weighting sums", fmt.Sprintf("%d numbers: the sum, over a random sample of the site's privacy units, of clipped gradients; the aggregator sees it, and releases the sum over all nodes with noise only", n),
			int(q.Count), sum(n, pipeline.MostUnits*discriminatorBound)},
			"network", fmt.Sprintf("the %d weights of the network that rows are weighted by, in each step; they follow from releases", n))
	}
	return leaving, arriving
}

// mostPasses is how often a fit asks at most.
const mostPasses = 200
