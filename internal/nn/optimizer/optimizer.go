// Package optimizer moves parameters against their gradients.
package optimizer

import "github.com/conclave-dp/conclave/internal/nn/tensor"

// Optimizer moves parameters by their gradients: [Adam] or [SGD]. State, Steps and SetSteps are for checkpoints.
type Optimizer interface {
	// Step moves the parameters against their gradients, and sets the gradients to zero.
	Step()
	State() []tensor.Param
	Steps() int
	SetSteps(n int)
}

// moment makes one tensor of zeros for each parameter.
func moment(params []tensor.Param) [][]float32 {
	m := make([][]float32, len(params))
	for i, p := range params {
		m[i] = make([]float32, len(p.Value))
	}
	return m
}

func states(params []tensor.Param, suffix string, values [][]float32) []tensor.Param {
	ps := make([]tensor.Param, len(params))
	for i, p := range params {
		ps[i] = tensor.Param{Name: p.Name + suffix, Shape: p.Shape, Value: values[i]}
	}
	return ps
}
