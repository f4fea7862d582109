package nn

import "math/rand/v2"

func DrawInit(f Init, rng *rand.Rand, w []float32, fanIn, fanOut int) { f.draw(rng, w, fanIn, fanOut) }

const LeastClip = minBound

const MostSteps = maxStepsBound

var StepScale = stepScale
