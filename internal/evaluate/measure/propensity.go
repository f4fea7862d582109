package measure

import "fmt"

// PMSE is the propensity score's mean squared error (Woo, Reiter, Oganian, Karr 2009): the mean of (p - c)^2
// over all rows. p is a row's propensity score, a model's probability that it is synthetic, and c the share of
// synthetic rows. 0 means that the model cannot tell them from real ones, and c(1-c) that it always can. weight
// is nil for 1 each.
//
// It fails for slices of unequal length and probabilities outside [0,1], with ErrWeights, and with ErrOneClass
// if all rows are real or all synthetic.
func PMSE(synthetic []bool, propensity, weight []float64) (float64, error) {
	if len(synthetic) != len(propensity) {
		return 0, fmt.Errorf("pmse: %d rows but %d propensity scores", len(synthetic), len(propensity))
	}
	for i, p := range propensity {
		if !(p >= 0 && p <= 1) {
			return 0, fmt.Errorf("pmse: the propensity score of row %d is %v: it must be a probability", i+1, p)
		}
	}
	w, err := Weights(len(propensity), weight)
	if err != nil {
		return 0, fmt.Errorf("pmse: %w", err)
	}
	made, real, err := weighClasses(synthetic, w)
	if err != nil {
		return 0, fmt.Errorf("pmse: %w", err)
	}
	share := made / (made + real)
	total := 0.0
	for i, p := range propensity {
		total += w[i] * (p - share) * (p - share)
	}
	return total / (made + real), nil
}

// ExpectedPMSE is the expectation of PMSE for a correct synthesis (Snoke, Raab, Nowok, Dibben, Slavkovic 2018,
// "General and specific utility measures for synthetic data", JRSS A 181):
//
//	(k-1) (1-c)^2 c / N
//
// The propensity scores come from a logistic regression with k independent parameters, including the intercept,
// on N rows with the share c of synthetic ones. The real rows are fixed: the synthetic ones are drawn from a
// distribution fitted to them. For two independent samples of one distribution, PMSE is 1/(1-c) times as large,
// so twice for equally many rows.
//
// It fails for k below 1, c outside (0,1), and N that is not positive.
func ExpectedPMSE(k int, c, n float64) (float64, error) {
	if k < 1 || !(c > 0 && c < 1) || !(n > 0) {
		return 0,
			fmt.Errorf(
				"expected pmse: %d parameters, a share of %v, %v rows: need at least 1, one between 0 and 1, and some",
				k, c, n)
	}
	return float64(k-1) * (1 - c) * (1 - c) * c / n, nil
}
