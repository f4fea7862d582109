// Package questiontest is the test suite that every kind of question must pass: [Run] checks shape, bound,
// baselines, repetition, restarts and refusals, and [Fuzz] that no parameters give an answer larger than its
// shape. It also makes sites with random records for tests of kinds and nodes.
package questiontest
