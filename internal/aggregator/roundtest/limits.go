package roundtest

// The limits that an aggregator documents. They are written out here, so that a change of one
// shows in a test.
const (
	MaxQueries  = 1 << 16
	MaxCounts   = 1 << 17
	MaxEntries  = 1 << 21
	MaxUnits    = 1 << 27
	MaxFitted   = 1 << 24
	MaxFitWidth = 400
)
