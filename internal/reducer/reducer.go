// Package reducer is what an aggregator needs of a kind of question whose answer takes several
// passes over the nodes, such as the fit of a regression: the program that makes the passes and
// what bounds its result. It comes with its kind, and is registered where programs are put
// together; the aggregator knows none by name.
package reducer

import (
	"context"
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Reducer makes the sums of a kind of question.
type Reducer struct {
	// Kind is the name of the kind.
	Kind string
	// Read checks the parameters of a round. Its errors travel to the student.
	Read func(params []byte) (*Reduction, error)
}

// Reduction is a question that was checked.
type Reduction struct {
	// Entries is the length of the result, in whole steps, and L1 and L2 bound in these norms
	// how far one privacy unit moves it.
	Entries int
	L1, L2  int64
	// Run makes the result. The number of passes follows from params. It fails only if a pass fails, and never
	// because of what a pass returned: errors reach the student, and the passes' results are PRIVATE.
	Run func(ctx context.Context, pass Pass) ([]int64, error)
}

// Pass asks all nodes for a sum over their privacy units, by parameters of the kind, and returns
// it without noise. Changed says that other nodes answered than in the pass before.
type Pass func(params []byte, sum *conclavev1.Vector) (sums []int64, changed bool, err error)

// Registry has reducers by their kind.
type Registry map[string]Reducer

// NewRegistry panics if two reducers are of one kind.
func NewRegistry(reducers ...Reducer) Registry {
	all := Registry{}
	for _, r := range reducers {
		if _, taken := all[r.Kind]; taken {
			panic(fmt.Sprintf("two reducers are of kind %q", r.Kind))
		}
		all[r.Kind] = r
	}
	return all
}
