// Package privacy computes what releases cost and decides whether another one may be made.
//
// Start with [Account]: a list of [Event] values (what was released, with which noise, how often) and a delta give a
// [Price], the smallest epsilon that the accountants of this package can prove. [Budget.Admit] is the filter before
// every release, and [GNMaxSigma] and [LNMaxLambda] turn a budget into noise. Package ledger is the log behind it.
//
// For a calculator: [Calibrate] and [MaxQueries] find noise and number of queries for a target. Package pate has the
// bounds of the PATE papers on votes.
//
// mechanism.go says why each mechanism is private. The accountants are in pure.go, gaussian.go, rdp.go with
// subsampled.go, and pld.go with its pairs, its grid and its composition.
//
// # Neighbouring datasets
//
// Two datasets are neighbours when one privacy unit is added to, or removed from, one of them. Partitions are
// disjoint, so a unit reaches one teacher, and a teacher casts one vote per query: in a histogram of votes one vote
// moves from one bin to another, and the total never changes. All costs of the vote mechanisms are for such a move.
//
// # Two separate statements
//
// [Account] answers: what do these releases cost, with their number and noise taken as given? It may take the
// smallest of several proofs, because each of them holds for the same list.
//
// [Budget.Admit] answers: may this be released too, if the list so far was itself chosen depending on earlier
// answers? There are fewer proofs for such fully adaptive lists, and choosing the most favourable afterwards is not
// allowed. See [Filter] for the rule and its sources. The rule is never below the price, so no price exceeds a budget
// that the filter guarded.
//
// A run may fix all that it will ever release before its first question. [Account] may price such a [Plan], whatever
// the answers are: the filter [FilterPLD] checks the plan once and then only counts. [Spending] is the one rule that
// charges, advance checks and verification share.
//
// # What it does not promise
//
// Figures are float64: relative errors of about 1e-13 are not rounded up, except where subtraction would magnify
// them. This package cannot know whether noise was really drawn; package gnmax draws it.
package privacy
