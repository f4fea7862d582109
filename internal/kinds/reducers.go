package kinds

import (
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/reducer"
)

// Reducers has those of the kinds whose answers take several passes, for the aggregators of
// this program.
var Reducers = reducer.NewRegistry(logistic.Fit)
