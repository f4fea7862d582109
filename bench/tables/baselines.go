package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Baselines are what a table is worth at very little effort: counts of columns, alone or with the label, in equal
// cells, with Gaussian noise for the budget. Their rows are for comparison only: the noise comes from a seed.

// columnsAlone has every column by itself.
func columnsAlone(_ context.Context, a *attempt) (*table, error) { return fromCounts(a, -1) }

// naiveBayes has every column with the label; it is nil without one.
func naiveBayes(_ context.Context, a *attempt) (*table, error) {
	if label := a.data.train.Schema().LabelColumn(); label >= 0 {
		return fromCounts(a, label)
	}
	return nil, nil
}

// equalCells is how many cells of its public range a number has.
const equalCells = 20

// valueOf draws a value of a cell.
func valueOf(c *partition.Column, cells evaluate.Bins, cell int, rng *rand.Rand) float64 {
	v := cells.Draw(cell, rng)
	if c.Kind == partition.Integer {
		v = math.Round(v)
	}
	return v
}

// fromCounts draws rows from noisy counts of each column with the label, or of single columns if label is below 0.
func fromCounts(a *attempt, label int) (*table, error) {
	budget, err := privacy.NewBudget(a.epsilon, a.delta)
	if err != nil {
		return nil, err
	}
	sigma, err := privacy.GaussianSigma(budget, 1, nil)
	if err != nil {
		return nil, err
	}
	schema := a.data.train.Schema()
	rng := rand.New(rand.NewPCG(uint64(a.seed), 27))
	cells := make([]evaluate.Bins, len(schema.Columns))
	var columns []int // that are counted, each by a weight of 1
	for j := range schema.Columns {
		cells[j] = evaluate.NewBins(&schema.Columns[j], equalCells)
		if j != schema.UnitColumn() && j != label {
			columns = append(columns, j)
		}
	}
	classes := 1
	classOf := func([]float64) int { return 0 }
	if label >= 0 {
		classes = cells[label].Size()
		classOf = func(row []float64) int { return int(cells[label].Code(row[label])) }
	}
	noise := sigma * math.Sqrt(float64(len(columns)))
	counts := make([][]float64, len(schema.Columns)) // of a class one after the other
	shares := make([]float64, classes)
	for _, j := range columns {
		c := &schema.Columns[j]
		n := cells[j].Size()
		counts[j] = make([]float64, classes*n)
		for i := range a.data.train.Len() {
			row := a.data.train.Cells(i)
			counts[j][classOf(row)*n+int(cells[j].Code(row[j]))]++
		}
		for at := range counts[j] {
			if at%n == n-1 && !c.Nullable || label >= 0 && at/n == classes-1 && !schema.Columns[label].Nullable {
				continue // nothing is there, which is public
			}
			counts[j][at] = max(0, counts[j][at]+noise*rng.NormFloat64())
			shares[at/n] += counts[j][at]
		}
	}
	rows := partition.NewTable(schema)
	row := make([]float64, len(schema.Columns))
	for range a.group.rows {
		class := drawn(shares, rng)
		for _, j := range columns {
			n := cells[j].Size()
			row[j] = valueOf(&schema.Columns[j], cells[j], drawn(counts[j][class*n:(class+1)*n], rng), rng)
		}
		if label >= 0 {
			row[label] = valueOf(&schema.Columns[label], cells[label], class, rng)
		}
		unit := ""
		if u := schema.UnitColumn(); u >= 0 {
			row[u], unit = math.NaN(), schema.Columns[u].MadeUpUnit(rows.Len())
		}
		if err := rows.Append(row, unit); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// drawn returns an index, each by its weight. Without weights it returns any but the last, which is for empty
// values.
func drawn(weights []float64, rng *rand.Rand) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		return rng.IntN(max(1, len(weights)-1))
	}
	u := rng.Float64() * sum
	for i, w := range weights {
		if u -= w; u < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// programs are those of others that make rows of the same real rows with the same budget. Each is an executable
// file in a folder, named as its case, and is called as: NAME SCHEMA TRAIN EPSILON DELTA ROWS OUT. It writes a
// CSV file of ROWS rows to OUT.
type programs struct {
	folder string
	// limit bounds the processor time of a run: one that takes longer failed.
	limit time.Duration
}

func (p *programs) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.folder, "others", "",
		"`folder` with the programs aim and mst, called as NAME SCHEMA TRAIN EPSILON DELTA ROWS OUT; or one of them")
	c.Flags().DurationVar(&p.limit, "limit", 15*time.Minute, "CPU time limit for a run of these programs")
}

// rows are those of a program; nil without the program.
func (p *programs) rows(ctx context.Context, a *attempt) (*table, error) {
	if p.folder == "" {
		return nil, nil
	}
	program, err := filepath.Abs(filepath.Join(p.folder, a.runCase.name))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	out := filepath.Join(a.dir, "rows.csv")
	// The shell sets the limit and becomes the program.
	c := exec.CommandContext(ctx, "sh", "-c", `ulimit -S -t "$0" && exec "$@"`, fmt.Sprint(int(p.limit.Seconds())),
		program, a.data.schemaPath, a.data.trainPath, fmt.Sprint(a.epsilon), fmt.Sprint(a.delta),
		fmt.Sprint(a.group.rows), out)
	var said bytes.Buffer
	c.Stderr, c.WaitDelay = &said, time.Second
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return nil, err
		}
		if ended, _ := exit.Sys().(syscall.WaitStatus); ended.Signal() == syscall.SIGXCPU {
			return nil, fmt.Errorf("it did not end within %v of processor time", p.limit)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return tabular.Read(a.data.train.Schema(), out, tabular.Options{IgnoreUnit: true})
}
