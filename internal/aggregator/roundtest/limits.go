package roundtest

// Limits of questions, as package shape has them.
const (
	MaxFeatures  = 1 << 20
	MaxQueries   = 1 << 16
	MaxHistogram = 1 << 17
	MaxClasses   = 1 << 16
	MaxWeights   = 1 << 17
	MaxUnits     = 1 << 24
	MaxFitWidth  = 400
	MaxScored    = 4096
	MaxSumEntry  = int64(1) << 53
	MaxSumScale  = 1 << 32
)
