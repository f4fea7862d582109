// Package tilt moves a generator of tables towards its own distribution tilted by the
// exponential of a public function, the change of a discriminator. The generator is
// fitted to the mean random features of its own weighted records, and does not climb the
// function, which would narrow it.
//
//	m := tilt.New(student, encoder, steps)
//	m.Follow(func(x []float32, classes []int) []float32 { ... })
//
// It sees no data but what the generator made, so it costs nothing.
package tilt
