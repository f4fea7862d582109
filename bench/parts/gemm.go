package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
)

// shape is a product [m, k] times [k, n].
type shape struct{ m, n, k int }

func (s shape) String() string { return fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k) }

func (s shape) flops() float64 { return 2 * float64(s.m) * float64(s.n) * float64(s.k) }

// shapes are those of openblas/sgemm.c.
var shapes = []shape{{128, 128, 128}, {256, 256, 256}, {1024, 1024, 1024}, {64, 29, 29}, {64, 128, 784}, {64, 784, 128}}

// openBLASProgram is the C program to compare with.
//
//go:embed openblas/sgemm.c
var openBLASProgram []byte

// gemmCommand compares the matrix product with OpenBLAS and with gonum, on one core and in one
// run. See README.md.
func gemmCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "gemm [flags]",
		Short: "compare matrix products with OpenBLAS (needs gcc and libopenblas-dev) and gonum",
	}
	rounds := c.Flags().Int("rounds", 5, "rounds of each in turn; the best one counts")
	c.RunE = func(c *cobra.Command, _ []string) error { return compareProducts(c.Context(), *rounds) }
	return c
}

func compareProducts(ctx context.Context, rounds int) error {
	runtime.GOMAXPROCS(1)
	dir, err := os.MkdirTemp("", "gemm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	other := filepath.Join(dir, "openblas")
	compile := exec.CommandContext(ctx, "gcc", "-O2", "-o", other, "-x", "c", "-", "-lopenblas")
	compile.Stdin = bytes.NewReader(openBLASProgram)
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("build openblas/sgemm.c: %w\n%s(it needs gcc and Debian's libopenblas-dev)", err, out)
	}
	levels := []struct {
		level kernel.Level
		core  string // of OpenBLAS
	}{{kernel.AVX512, "SkylakeX"}, {kernel.AVX2, "Haswell"}}
	ours := map[kernel.Level]map[shape]float64{}
	theirs := map[kernel.Level]map[string]float64{}
	gonum := map[shape]float64{}
	for range rounds {
		for _, l := range levels {
			restore, err := kernel.Use(l.level)
			if err != nil {
				continue // the processor lacks it
			}
			if ours[l.level] == nil {
				ours[l.level], theirs[l.level] = map[shape]float64{}, map[string]float64{}
			}
			for _, s := range shapes {
				ours[l.level][s] = max(ours[l.level][s], rateOf(s, kernelProduct))
			}
			restore()
			if err := openBLAS(ctx, other, l.core, theirs[l.level]); err != nil {
				return err
			}
		}
		for _, s := range shapes {
			gonum[s] = max(gonum[s], rateOf(s, gonumProduct))
		}
	}
	t := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "shape m x n x k\tlevel\tGFLOP/s\tOpenBLAS\tratio\tgonum\tratio")
	for _, l := range levels {
		for _, s := range shapes {
			if x, ok := ours[l.level][s]; ok {
				y := theirs[l.level][s.String()]
				fmt.Fprintf(t, "%v\t%v\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\n", s, l.level, x, y, x/y, gonum[s], x/gonum[s])
			}
		}
	}
	return t.Flush()
}

// openBLAS runs the C program and keeps the best of its rates.
func openBLAS(ctx context.Context, program, core string, best map[string]float64) error {
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), "OPENBLAS_CORETYPE="+core, "OPENBLAS_NUM_THREADS=1")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("openblas: %w", err)
	}
	for line := range bytes.Lines(out) {
		var name string
		var rate float64
		if _, err := fmt.Sscan(string(line), &name, &rate); err != nil {
			return fmt.Errorf("openblas wrote %q: %w", line, err)
		}
		best[name] = max(best[name], rate)
	}
	return nil
}

type productFunc func(s shape, c, a, b []float32)

func kernelProduct(s shape, c, a, b []float32) {
	gemm.Multiply(kernel.Of(c, s.m, s.n), kernel.Of(a, s.m, s.k), kernel.Of(b, s.k, s.n), gemm.Epilogue{})
}

func gonumProduct(s shape, c, a, b []float32) {
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, of(a, s.m, s.k), of(b, s.k, s.n), 0, of(c, s.m, s.n))
}

// rateOf is the best of several rates in GFLOP/s, each over about 20 ms.
func rateOf(s shape, f productFunc) (best float64) {
	a, b, c := make([]float32, s.m*s.k), make([]float32, s.k*s.n), make([]float32, s.m*s.n)
	for i := range a {
		a[i] = float32(i%7) - 3
	}
	for i := range b {
		b[i] = float32(i%5) - 2
	}
	times := 1
	for range 12 {
		start := time.Now()
		for range times {
			f(s, c, a, b)
		}
		took := time.Since(start).Seconds()
		best = max(best, s.flops()*float64(times)/took/1e9)
		if took < 0.01 {
			times = max(2*times, int(0.02/max(took, 1e-7)*float64(times)))
		}
	}
	return best
}
