// Package iw weights synthetic rows by the density ratio of real to synthetic records
// (importance weights: Ghalebikesabi, Wilde, Jewson, Doucet, Vollmer and Holmes, "Mitigating
// Statistical Bias within Differentially Private Synthetic Data", 2022), on the student's
// side: public features in units of the synthetic rows, the choices that a fit leaves open,
// and a network that tells real from synthetic records by noisy gradients.
//
//	features, err := iw.NewFeatures(encoder, x, classes, o) // units of the synthetic rows
//	lambda := iw.Lambda(kind, cost, clip, records, width)     // how much to regularize
//	n, err := iw.NewNetwork(encoder, x, classes, options, seed)
//	err = n.Run(ctx, oracle, nil)                             // dp-mlp
//
// All that it sees of real records are releases. The arithmetic of the regression, which
// others do too, is in package ratio.
package iw
