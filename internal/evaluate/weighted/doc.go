// Package weighted estimates from synthetic rows that have importance weights: what
// a real population says, by rows drawn from a generator. A row's weight w says how
// much more often it comes up among real rows than among generated ones (its
// likelihood ratio, up to a constant).
//
//	mean, err := weighted.Mean(age, weight)                    // mean.Value, mean.StandardError
//	fit, err := weighted.Logistic(weighted.WithIntercept(x), ill, weight)
//	scaled, err := weighted.Scale(weight, weighted.EffectiveSize)
//	posterior, err := weighted.NewNormal(mean, sd).UpdateLogistic(x, ill, scaled)
//
// The weights are those of the last column of a file of synthetic rows, read by
// tabular.Options.Weights; nil stands for 1 each. All that is computed here
// comes of released rows and costs no budget.
//
// # What the unit of the weights means
//
// Nothing, to self-normalized figures: Mean, Variance, Quantile, Ratio, Linear and
// Logistic and their standard errors do not change when all weights are doubled.
// PlainMean needs the likelihood ratios themselves; of a mean of 1 they are an
// estimate with the error of that mean.
//
// A posterior counts: a weight of 2 is two rows. Ghalebikesabi et al. (2022,
// "Mitigating Statistical Bias within Differentially Private Synthetic Data",
// equation 3) update by
//
//	pi(theta | x_1..x_m) ~ pi(theta) prod f(x_i | theta)^w_i
//
// whose width is that of sum(w) rows. Choose the sum with Scale:
//
//   - SumOfRows, weights of mean 1: as wide as after m rows. m is how many rows
//     somebody chose to generate, so the posterior becomes as narrow as one likes,
//     and far too narrow where few rows carry the weight.
//   - EffectiveSize, Kish's number of rows of equal weight: as wide as after so many
//     rows. It grows with m, too. Take this one where m is at most the number of real rows.
//   - a number of the caller's, such as the number of real records where it is public: no
//     number of generated rows can say more than the records did. The smaller of it and
//     the effective size is the cautious choice.
//
// None of them counts what the noise of the weights and of the generator adds, nor the
// bias of a generator that misses where real rows are. Intervals are too short by that.
package weighted
