package report

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// stages says what was asked after the training, and returns the rounds of the training.
func stages(rounds []Round) (says string, training []Round) {
	var selections, samples, fits int
	var coefficients, weights int64
	for _, r := range rounds {
		switch {
		case r.Stage == "selections":
			selections++
		case r.Stage == "fit":
			fits, coefficients = fits+1, max(coefficients, r.Entries)
		case r.Stage == "sampled":
			samples, weights = samples+1, max(weights, r.Entries)
		default:
			training = append(training, r)
		}
	}
	var list []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(selections,
		"After the training %s of one of the stored discriminators %s made, at random, those that tell synthetic "+
			"from real rows better being more likely.",
		text.Several(selections, "selection"), was(selections))
	add(samples,
		"A network that rows are weighted by learned from %s over samples of the records, each of %s with noise.",
		text.Several(samples, "sum"), text.Several(weights, "number"))
	add(fits,
		"The coefficients of the regression that rows are weighted by, %s in all, were released with noise.",
		text.Several(coefficients, "number"))
	return strings.Join(list, " "), training
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// joined puts a blank between sentences that there are.
func joined(sentences ...string) string {
	var some []string
	for _, s := range sentences {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, " ")
}
