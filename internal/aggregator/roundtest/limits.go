package roundtest

// The documented limits of an aggregator. They are written out here so that changing one fails a test.
const (
	MaxQueries  = 1 << 16
	MaxCounts   = 1 << 17
	MaxEntries  = 1 << 21
	MaxUnits    = 1 << 27
	MaxFitted   = 1 << 24
	MaxFitWidth = 400
)
