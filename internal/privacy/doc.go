// Package privacy says what releases cost and whether another one may be made.
//
// Start with [Account]: a list of [Event] values (what was released, with which
// noise, how often) and a delta give a [Price], the smallest epsilon that the
// accountants of this package can prove. [Budget.Admit] is the filter in front
// of every release, and [GNMaxSigma] and [LNMaxLambda] turn a budget into noise.
// Package ledger is the log behind it.
//
// For a calculator: [Calibrate] and [MaxQueries] find noise and number of queries
// for a target. Package pate has what the PATE papers say about votes.
//
// mechanism.go says of each mechanism why it is private. The accountants are in
// pure.go, gaussian.go, rdp.go with subsampled.go, and pld.go with its pairs, its
// grid and its composition.
//
// # Neighbouring datasets
//
// Two datasets are neighbours when one privacy unit is added to, or removed
// from, one of them. Partitions are disjoint, so that a unit reaches one
// teacher, and a teacher casts one vote per query: a histogram of votes changes
// by one vote that moves from one bin to another, and never in its total. All
// costs of the vote mechanisms are stated for such a move.
//
// # Two statements, kept apart
//
// [Account] answers: what do these releases cost, their number and noise taken
// as given? It may take the smallest of several proofs, since each of them
// holds for the same list.
//
// [Budget.Admit] answers: may this be released too, where the list so far was
// itself chosen in the light of earlier answers? Proofs for such fully adaptive
// lists are fewer, and one may not pick the most favourable of them after the
// fact. See [Filter] for the rule and its sources. The rule is never
// below the price, so that a price never passes a budget that the filter
// guarded.
//
// A run may fix all that it will ever release before its first question. Such a
// [Plan] is a list whose cost [Account] may tell, whatever the answers are: the
// filter [FilterPLD] checks the plan once and then only counts. [Spending] is the
// one rule that charges, checks beforehand and verification share.
//
// # What it does not promise
//
// The figures are float64: relative errors of about 1e-13 are not rounded up,
// except where subtraction would magnify them. Nothing here knows whether noise
// was really drawn; see package gnmax for that.
package privacy
