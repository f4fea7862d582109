package embed

import (
	"context"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Oracle answers with private releases. Asking a round again gives the same answer.
type Oracle interface {
	Embedding(ctx context.Context, round uint64, q *Question) (*Answer, error)
}

// Question asks for the sum of the features of all records.
type Question struct {
	Classes int
	Parts   []embedding.Part
	// Entries is the length of the sum, a block of features for each class.
	Entries int
	// Norm is the L2 norm of what a privacy unit adds, at most.
	Norm float64
}

// Answer holds the release.
type Answer struct {
	// Sum is the noisy sum, shape [classes, features].
	Sum []float32
	// Noise is the standard deviation of the noise of each number.
	Noise float64
	pipeline.Paid
}
