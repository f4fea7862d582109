package embedding

// ones is the part of one number.
type ones float32

func (ones) count() int { return 1 }

func (ones) groups() []int { return []int{1} }

func (o ones) pass() pass { return o }

func (ones) take([]float32, int) {}

func (o ones) each(_ int, add func(at int, value float32)) { add(0, float32(o)) }

func (o ones) sum(_ int, dst []float64) { dst[0] += float64(o) }

func (ones) slope([]float32, func(i int) []float32) {}
