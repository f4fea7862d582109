package iw

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/reducer"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/runspec"
)

// Stage is what runs know of weights.
var Stage = pipeline.Stage{
	Name: "weighting", Options: pipeline.Defaults(DefaultOptions),
	Discriminators: func(f pipeline.Followed) bool { return f.Weights == Discriminator },
	Validate:       validate, Check: check, Share: share, Price: price, Messages: messages,
	Weigh: weigh, Weighted: weighted,
	Kinds: []question.Kind{logistic.Sum}, Reducers: []reducer.Reducer{logistic.Fit},
	Asks: []pipeline.StageQuestion{
		{Stage: runspec.Sampled, Kind: runspec.Discriminator, Says: func(sums int, numbers int64) string {
			return fmt.Sprintf("A network that rows are weighted by learned from %s over samples of the records, each "+
				"of %s with noise.", text.Several(sums, "sum"), text.Several(numbers, "number"))
		}},
		{Stage: runspec.Coefficients, Kind: runspec.Fit, Says: func(_ int, coefficients int64) string {
			return fmt.Sprintf("The coefficients of the regression that rows are weighted by, %s in all, were "+
				"released with noise.", text.Several(coefficients, "number"))
		}},
	},
}
