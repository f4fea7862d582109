package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/losses"
)

// measureMemory takes steps of 4,000 teachers of images of 28 x 28 pixels, each
// with 15 records, which is what MNIST gives them, and prints the memory that the
// process took from the system.
func measureMemory() error {
	const models, pixels, rows = 4000, 784, 15
	e, err := ensemble.New(ensemble.Spec{
		Models: models, Classes: 1, Input: nn.Vector(pixels), Rate: rate,
		Layers: []nn.Spec{nn.Dense{Out: 128}, nn.LeakyReLU(leak), nn.Dense{Out: 1}},
	})
	if err != nil {
		return err
	}
	real := make([]ensemble.Examples, models)
	for i := range real {
		x := make([]float32, rows*pixels)
		for j := range x {
			x[j] = float32((i+j)%3) / 2
		}
		real[i].ByClass = [][]float32{x}
	}
	generated, classes := make([]float32, batch*pixels), make([]int, batch)
	start := time.Now()
	if err := e.Train(real, generated, classes, 1, batch); err != nil {
		return err
	}
	step := time.Since(start)
	start = time.Now()
	if err := e.InputGradients(generated, classes, losses.Logistic, func(int, []float32) {}); err != nil {
		return err
	}
	gradients := time.Since(start)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("%d teachers of shape 784-128-1: a step %.2f s, gradients of %d records %.2f s, %.2f GiB of memory\n",
		models, step.Seconds(), batch, gradients.Seconds(), float64(memory.Sys)/(1<<30))
	return nil
}
