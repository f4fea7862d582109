// Package weighted makes estimates for a real population from generated rows with importance weights. A row's
// weight w tells how much more frequent it is among real rows than among generated ones (its likelihood ratio,
// up to a constant).
//
//	mean, err := weighted.Mean(age, weight)                    // mean.Value, mean.StandardError
//	fit, err := weighted.Logistic(weighted.WithIntercept(x), ill, weight)
//	scaled, err := weighted.Scale(weight, weighted.EffectiveSize)
//	posterior, err := weighted.NewNormal(mean, sd).UpdateLogistic(x, ill, scaled)
//
// The weights are those of the last column of a file of synthetic rows, read by tabular.Options.Weights; nil
// means 1 each. Everything here is computed from released rows and costs no budget.
//
// # The unit of the weights
//
// The unit does not matter to self-normalized figures: Mean, Variance, Quantile, Ratio, Linear and Logistic and
// their standard errors do not change if all weights are doubled. PlainMean needs the likelihood ratios
// themselves; weights of mean 1 estimate them, with the error of that mean.
//
// A posterior counts: a weight of 2 is two rows. Ghalebikesabi et al. (2022, "Mitigating Statistical Bias
// within Differentially Private Synthetic Data", equation 3) update by
//
//	pi(theta | x_1..x_m) ~ pi(theta) prod f(x_i | theta)^w_i
//
// whose width is that of sum(w) rows. Choose the sum with Scale:
//
//   - SumOfRows, weights of mean 1: as wide as after m rows. The number m of generated rows is a
//     free choice, so the posterior can become arbitrarily narrow, and is far too narrow if few
//     rows carry the weight.
//   - EffectiveSize, Kish's number of rows of equal weight: as wide as after that many
//     rows. It grows with m as well. Use it if m is at most the number of real rows.
//   - a number of the caller's, such as the number of real records if it is public: generated rows
//     cannot carry more information than the records. The smaller of this number and
//     the effective size is the cautious choice.
//
// None of them includes the noise of the weights and of the generator, nor the bias of a generator that misses
// some real rows. Intervals are too short by that.
package weighted
