// Package iw weights synthetic rows by the density ratio of real to synthetic records (importance weights:
// Ghalebikesabi, Wilde, Jewson, Doucet, Vollmer and Holmes, "Mitigating Statistical Bias within Differentially
// Private Synthetic Data", 2022), on the student's side. It has public features in units of the synthetic rows,
// the defaults of a fit, and a network that learns by noisy gradients to tell real from synthetic records.
//
//	features, err := iw.NewFeatures(encoder, x, classes, o) // units of the synthetic rows
//	lambda := iw.Lambda(kind, cost, clip, records, width)     // how much to regularize
//	n, err := iw.NewNetwork(encoder, x, classes, options, seed)
//	err = n.Run(ctx, oracle, nil)                             // dp-mlp
//
// It sees real records only through releases. Package ratio has the arithmetic of the regression, which other
// packages use too.
package iw
