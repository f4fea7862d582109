package iw

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// mostPasses is how often a fit asks at most; see [ratio.Problem.Passes].
const mostPasses = 710

// messages are those of a fit or of the steps of a network.
func messages(of pipeline.Options, f pipeline.Followed, p plan.Stages) (all []pipeline.StageMessages) {
	o := of.(*Options)
	if _, ok := p.Of(runspec.Coefficients); ok {
		width := Width(f.Encoder, f.Classes, o.Squares)
		numbers := width + ratio.Triangle(width)
		all = append(all, pipeline.StageMessages{
			AnswerName: "derivatives", Times: mostPasses, Numbers: numbers,
			Largest: ratio.MostUnits * ratio.FinestBound,
			AnswerContent: fmt.Sprintf("%d numbers: the sum over the site's privacy units of first and second "+
				"derivatives of a regression's loss, as often as follows from public numbers; the aggregator sees it, "+
				"and releases %d coefficients with noise only", numbers, width),
			Asked: "coefficients",
			AskedContent: fmt.Sprintf("%d numbers, as often: the coefficients so far, WITHOUT NOISE; they come of all "+
				"sites' records", width),
		})
	}
	if planned, ok := p.Of(runspec.Sampled); ok {
		n := Parameters(f.Encoder, f.Classes, o.MLP.Hidden)
		all = append(all, pipeline.StageMessages{
			AnswerName: "weighting sums", Times: int(planned.Count), Numbers: n,
			Largest: pipeline.MostUnits * pipeline.DiscriminatorBound,
			AnswerContent: fmt.Sprintf("%d numbers: the sum, over a random sample of the site's privacy units, of "+
				"clipped gradients; the aggregator sees it, and releases the sum over all nodes with noise only", n),
			Asked: "network",
			AskedContent: fmt.Sprintf("the %d weights of the network that rows are weighted by, in each step; they "+
				"follow from releases", n),
		})
	}
	return all
}
