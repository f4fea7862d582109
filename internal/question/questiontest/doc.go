// Package questiontest is the suite that every kind of question passes at a node: [Run]
// checks shape, bound, baselines, repetition, restarts and refusals, and [Fuzz] that no
// parameters make an answer larger than its shape. It also makes sites of drawn records for
// the tests of kinds and of nodes.
package questiontest
