// Package pipeline holds what the students of all pipelines share: the
// questions they may ask, the conditional generators of tables and images with
// typed outputs, and the model folder from which more data can be sampled.
//
// The pipelines themselves are its sub-packages; start with
// [github.com/conclave-dp/conclave/internal/pipeline/pategan]. A pipeline sees releases
// only, through the [Oracle] it is given; it knows no transport and holds no
// real record, so everything it computes is post-processing of private
// answers.
package pipeline
