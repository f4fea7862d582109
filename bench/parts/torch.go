package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
)

//go:embed discriminator.py
var torchProgram string

// comparison is the output. Map keys are numbers of threads.
type comparison struct {
	Kernel string             `json:"kernel"`
	NN     map[string]float64 `json:"nn_images_per_second"`
	Torch  *torch             `json:"torch,omitempty"`
	// Ratio is nn's images per second over PyTorch's.
	Ratio map[string]float64 `json:"ratio,omitempty"`
}

type torch struct {
	Version string             `json:"torch"`
	Images  map[string]float64 `json:"images_per_second"`
}

// torchCommand trains DCGAN's discriminator with nn, and with PyTorch if Python has it, and prints the images per
// second of each as JSON. See README.md.
func torchCommand() *cobra.Command {
	c := &cobra.Command{Use: "torch [flags]", Short: "compare training DCGAN's discriminator with PyTorch"}
	threads := c.Flags().IntSlice("threads", []int{1, 2}, "comma-separated numbers of threads")
	seconds := c.Flags().Float64("seconds", 5, "seconds to measure each")
	python := c.Flags().String("python", "/usr/bin/python3", "Python with PyTorch; empty to measure only nn")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !(*seconds > 0 && *seconds < 3600) {
			return cli.Misuse("--seconds %v: use more than 0 and less than 3600", *seconds)
		}
		if len(*threads) == 0 || slices.Min(*threads) < 1 {
			return cli.Misuse("--threads: use whole numbers of at least 1")
		}
		return compareDiscriminators(c.Context(), *threads, *seconds, *python)
	}
	return c
}

func compareDiscriminators(ctx context.Context, threads []int, seconds float64, python string) error {
	r := comparison{Kernel: kernel.Active().String(), NN: map[string]float64{}}
	var names []string
	for _, n := range threads {
		names = append(names, strconv.Itoa(n))
		speed, err := trainDiscriminator(ctx, n, time.Duration(seconds*float64(time.Second)))
		if err != nil {
			return err
		}
		r.NN[names[len(names)-1]] = speed
	}
	if python != "" {
		cmd := exec.CommandContext(ctx, python, "-c", torchProgram, strings.Join(names, ","), fmt.Sprint(seconds))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("measure PyTorch with %s (--python '' goes without): %w", python, err)
		}
		r.Torch, r.Ratio = &torch{}, map[string]float64{}
		if err := json.Unmarshal(out, r.Torch); err != nil {
			return fmt.Errorf("read what %s printed: %w", python, err)
		}
		for n, speed := range r.Torch.Images {
			r.Ratio[n] = r.NN[n] / speed
		}
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// trainDiscriminator returns images per second of forward, backward and Adam, the best of five measurements: other
// programs can only make it slower.
func trainDiscriminator(ctx context.Context, threads int, long time.Duration) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	rng := rand.New(rand.NewPCG(1, 2))
	net, err := nn.NewNetwork(rng, nn.Shape{Height: 28, Width: 28, Channels: 1},
		nn.Conv2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(0.2),
		nn.Conv2D{Out: 128, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(0.2),
		nn.Dense{Out: 1, Init: nn.DCGAN})
	if err != nil {
		return 0, err
	}
	adam := optimizer.NewAdam(net.Params(), 2e-4)
	x, grad := make([]float32, batch*net.In()), make([]float32, batch)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	step := func() {
		losses.Logistic(grad, net.Forward(x, batch), true)
		net.Backward(grad, true, false)
		adam.Step()
	}
	for range 5 {
		step()
	}
	best := 0.0
	for range 5 {
		steps, start := 0, time.Now()
		for time.Since(start) < long/5 && ctx.Err() == nil {
			step()
			steps++
		}
		best = max(best, batch*float64(steps)/time.Since(start).Seconds())
	}
	return best, ctx.Err()
}
