// Package question is the node side of questions: what a kind of question sees of the node, and how it answers. It
// knows no connection and adds no noise; the aggregator adds the noise.
//
// A [Kind] reads the parameters of a question and returns a [Checked] question: the [Shape] of its answer, and the
// function that computes it. Reading sees only what is [Public] about the node, so that a refusal cannot depend on
// its records. Answering sees the [Site].
//
// To add a kind, write a package with a variable of type Kind. Explain beside the code why a privacy unit moves
// the answer by at most the bound of its shape. Run the suite of package questiontest on it, and add it to the
// Kinds of its pipeline or stage.
package question
