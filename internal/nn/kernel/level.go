package kernel

import "fmt"

// Level is the set of instructions that the kernels use.
type Level int

// The levels, in rising order.
const (
	Portable Level = iota // Go
	AVX2                  // AVX2 and FMA
	AVX512                // AVX-512 F, BW, DQ and VL
)

func (l Level) String() string {
	switch l {
	case Portable:
		return "portable"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Level(%d)", int(l))
}

// supported is the highest level of the processor, level the one in use.
var (
	supported = detect()
	level     = supported
)

// Supported returns the highest level of this processor and build.
func Supported() Level { return supported }

// Active returns the level in use.
func Active() Level { return level }

// Use sets the level and returns a function that restores the previous one. It is for comparing levels in tests
// and benchmarks; no kernel may run at the same time. It fails if the processor or the build lacks the level.
func Use(l Level) (restore func(), err error) {
	if l < Portable || l > supported {
		return nil, fmt.Errorf("kernel: level %v is above %v, the highest of this processor and build", l, supported)
	}
	before := level
	level = l
	return func() { level = before }, nil
}
