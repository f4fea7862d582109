package pipeline

import (
	"errors"
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Each error names the field, what is wrong, and what would be right. All errors are reported at once.
func TestChecks(t *testing.T) {
	table := encode.New(partitiontest.Schema(t, testSchema))
	right, wrong := NewChecks("p"), NewChecks("p")
	for _, c := range []func(*Checks, bool){
		func(c *Checks, ok bool) { c.OneOf("word", map[bool]string{true: "a", false: "c"}[ok], "", "a", "b") },
		func(c *Checks, ok bool) { c.Between("n", map[bool]float64{true: 2, false: math.NaN()}[ok], 1, 2) },
		func(c *Checks, ok bool) { c.Positive("size", map[bool]float64{true: 1e-9}[ok]) },
		func(c *Checks, ok bool) { c.Chosen("rate", map[bool]float64{true: -1, false: -2}[ok], -1, 0, 1) },
		func(c *Checks, ok bool) { c.Chosen("rate", map[bool]float64{true: 1, false: 1.5}[ok], -1, 0, 1) },
		func(c *Checks, ok bool) { c.Between("most", map[bool]float64{true: 1 << 24, false: 0}[ok], 16, 1<<24) },
		func(c *Checks, ok bool) { c.Chosen("seed", map[bool]float64{true: 0, false: 1e8 + 0.5}[ok], 0, 1, 1e8) },
		func(c *Checks, ok bool) { c.Decay("average", map[bool]float64{true: -1, false: 1}[ok]) },
		func(c *Checks, ok bool) { c.Noise(map[bool]float64{true: 0, false: math.Inf(1)}[ok]) },
		func(c *Checks, ok bool) {
			c.Rounds(map[bool]float64{true: 1}[ok], map[bool]float64{true: 60, false: 86401}[ok])
		},
		func(c *Checks, ok bool) { c.ImagesOnly(table, map[string]bool{"warp": !ok}) },
		func(c *Checks, ok bool) { c.Take("of", map[bool]error{false: errors.New("broken")}[ok]) },
	} {
		c(right, true)
		c(wrong, false)
	}
	testkit.Must(t, right.Err())
	const want = `p.word: "c" is not one of ["a" "b"]
p.n: NaN is not between 1 and 2
p.size: 0 is not above 0
p.rate: -2 is not between 0 and 1, or -1 to have it chosen
p.rate: 1.5 is not between 0 and 1, or -1 to have it chosen
p.most: 0 is not between 16 and 16777216
p.seed: 1.000000005e+08 is not between 1 and 100000000, or 0 to have it chosen
p.average: 1 is not at least 0 and below 1, or -1 to have it chosen
p.noise: +Inf is not 0 (chosen) or above
p.quorum: 0 is not a share of the teachers, above 0 and at most 1
p.deadline: 86401 is not between 0.001 and 86400
p.warp is for images only; use another
p.of: broken`
	testkit.Same(t, "", want, wrong.Err().Error())
}
