package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
)

// The teachers of the measured step, and the number of steps in a round.
const (
	teachers = 1000
	features = 30
	hidden   = 30
	batch    = 64
	rate     = 1e-3
	steps    = 20
)

// flops counts the operations of a step's products: forward, and the weights' gradients.
const flops = float64(teachers) * 2 * batch * 2 * 2 * (features*hidden + hidden)

// ensembleCommand measures a training step of 1,000 teachers. In the same run it measures the best rate of the
// matrix product, the same step as a loop over gonum, and two cores against one. See README.md.
func ensembleCommand() *cobra.Command {
	c := &cobra.Command{Use: "ensemble [flags]", Short: "compare a step of 1,000 teachers with a loop over gonum"}
	rounds := c.Flags().Int("rounds", 15, "rounds of each in turn; the medians are printed")
	memory := c.Flags().Bool("memory", false,
		"measure the memory of 4,000 teachers of shape 784-128-1 instead; needs 5 GiB")
	c.RunE = func(*cobra.Command, []string) error {
		if *memory {
			return measureMemory()
		}
		return measureSteps(*rounds)
	}
	return c
}

// rated is one kind of work: the GFLOP of one call, and the number of cores it runs on.
type rated struct {
	name  string
	cores int
	gflop float64
	work  func() error
	rates []float64
}

func measureSteps(rounds int) error {
	d := newTraining()
	if err := d.agree(); err != nil {
		return err
	}
	once, err := d.ensemble()
	if err != nil {
		return err
	}
	many, err := d.ensemble()
	if err != nil {
		return err
	}
	loop := d.loop()
	step := func(e *ensemble.Ensemble, steps int) func() error {
		return func() error { return e.Train(d.real, d.generated, d.classes, steps, batch) }
	}
	rows := []*rated{
		{name: "product 256 x 256 x 256 (peak)", cores: 1, gflop: 2 * 256 * 256 * 256 / 1e9, work: product(256)},
		{name: "step alone", cores: 1, gflop: flops / 1e9, work: step(once, 1)},
		{name: "steps of a round", cores: 1, gflop: steps * flops / 1e9, work: step(many, steps)},
		{name: "step as a loop over gonum", cores: 1, gflop: flops / 1e9, work: loop.step},
		{name: "product 1024 x 1024 x 1024", cores: 1, gflop: 2 * 1024 * 1024 * 1024 / 1e9, work: product(1024)},
		{name: "step alone", cores: 2, gflop: flops / 1e9, work: step(once, 1)},
		{name: "steps of a round", cores: 2, gflop: steps * flops / 1e9, work: step(many, steps)},
		{name: "product 1024 x 1024 x 1024", cores: 2, gflop: 2 * 1024 * 1024 * 1024 / 1e9, work: product(1024)},
	}
	for range rounds {
		for _, r := range rows {
			if err := r.measure(); err != nil {
				return err
			}
		}
	}
	t := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "work\tcores\tGFLOP/s\tof the peak\ttimes gonum\ttimes one core")
	for _, r := range rows {
		alone := slices.IndexFunc(rows, func(o *rated) bool { return o.name == r.name && o.cores == 1 })
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.2f\t%.1f\t%.2f\n", r.name, r.cores, median(r.rates),
			r.over(rows[0]), r.over(rows[3]), r.over(rows[alone]))
	}
	return t.Flush()
}

// measure adds the rate of about 50 ms of work, in GFLOP/s.
func (r *rated) measure() error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(r.cores))
	times, start := 0, time.Now()
	for times == 0 || time.Since(start) < 50*time.Millisecond {
		if err := r.work(); err != nil {
			return err
		}
		times++
	}
	r.rates = append(r.rates, r.gflop*float64(times)/time.Since(start).Seconds())
	return nil
}

// over is the median of the ratios within rounds, so that a temporary slowdown of the machine affects both sides.
func (r *rated) over(o *rated) float64 {
	ratios := make([]float64, len(r.rates))
	for i := range ratios {
		ratios[i] = r.rates[i] / o.rates[i]
	}
	return median(ratios)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// product returns an n x n x n product on as many cores as there are.
func product(n int) func() error {
	matrix := func() kernel.Matrix {
		x := make([]float32, n*n)
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		return kernel.Of(x, n, n)
	}
	a, b, c := matrix(), matrix(), matrix()
	return func() error {
		parts := runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		for part := range parts {
			wg.Go(func() { gemm.MultiplyPart(c, a, b, gemm.Epilogue{}, part, parts) })
		}
		wg.Wait()
		return nil
	}
}

// training is what the teachers train on.
type training struct {
	real      []ensemble.Examples
	generated []float32
	classes   []int
}

func newTraining() *training {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() []float32 {
		x := make([]float32, batch*features)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	d := &training{real: make([]ensemble.Examples, teachers), generated: draw(), classes: make([]int, batch)}
	for i := range d.real {
		d.real[i].ByClass = [][]float32{draw()}
	}
	return d
}

func (d *training) ensemble() (*ensemble.Ensemble, error) {
	return ensemble.New(ensemble.Spec{
		Models: teachers, Classes: 1, Input: nn.Vector(features), Rate: rate,
		Layers: []nn.Spec{nn.Dense{Out: hidden}, nn.LeakyReLU(leak), nn.Dense{Out: 1, Init: nn.Zeros}},
	})
}

// loop starts with the weights of a new ensemble.
func (d *training) loop() *loop {
	e, err := d.ensemble()
	if err != nil {
		panic(err)
	}
	return newLoop(d, e.State()[0].Value)
}

// agree checks that both implementations lead to the same weights. Single ones may differ by a step: Adam makes a
// whole step if a gradient is 0 except for rounding.
func (d *training) agree() error {
	e, err := d.ensemble()
	if err != nil {
		return err
	}
	l := d.loop()
	for range 3 {
		if err := e.Train(d.real, d.generated, d.classes, 1, batch); err != nil {
			return err
		}
		if err := l.step(); err != nil {
			return err
		}
	}
	differ := 0.0
	for i, w := range e.State()[0].Value {
		differ += math.Abs(float64(w-l.w[i])) / float64(len(l.w))
	}
	if !(differ < rate/1000) {
		return fmt.Errorf("after three steps the weights of both ways differ by %v on average, with steps of %v",
			differ, rate)
	}
	return nil
}
