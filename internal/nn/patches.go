package nn

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// patches says how an image is covered by square patches: position (i, j) sees
// kernel x kernel pixels from (i*stride-pad, j*stride-pad) on. Pixels outside
// are zeros. A patch is a row of numbers [kernel, kernel, channels].
type patches struct {
	of                  Shape // the image
	rows, cols          int   // of positions
	kernel, stride, pad int
}

// check refuses shapes that no program can mean, and with the sizes of a patch
// keeps all products within an int.
func (p patches) check() error {
	switch {
	case p.kernel < 1 || p.stride < 1 || p.pad < 0:
		return fmt.Errorf("kernel %d, stride %d, padding %d: want at least 1, 1 and 0", p.kernel, p.stride, p.pad)
	case p.pad >= p.kernel:
		return fmt.Errorf("padding %d for a kernel of %d: want it smaller, or some patches are empty", p.pad, p.kernel)
	case p.rows < 1 || p.cols < 1:
		return fmt.Errorf("kernel %d with padding %d does not fit an image of %d x %d",
			p.kernel, p.pad, p.of.Height, p.of.Width)
	}
	if _, err := tensor.Size([]int{p.rows, p.cols, p.kernel, p.kernel, p.of.Channels}); err != nil {
		return fmt.Errorf("patches of %d x %d x %d at %d x %d positions are too large",
			p.kernel, p.kernel, p.of.Channels, p.rows, p.cols)
	}
	return p.of.check()
}

func (p patches) positions() int { return p.rows * p.cols }

func (p patches) size() int { return p.kernel * p.kernel * p.of.Channels }

// clip returns the kernel's pixels [lo, hi) that lie within size pixels when its first pixel is at pixel at.
func (p patches) clip(at, size int) (lo, hi int) {
	return min(max(0, -at), p.kernel), max(0, min(p.kernel, size-at))
}

// gather writes the patches of an image to cols, [positions, size] (im2col).
func (p patches) gather(cols, image []float32) {
	c, run := p.of.Channels, p.kernel*p.of.Channels
	for i := range p.rows {
		for j := range p.cols {
			at := j*p.stride - p.pad
			lo, hi := p.clip(at, p.of.Width)
			for k := range p.kernel {
				row := cols[:run]
				cols = cols[run:]
				y := i*p.stride - p.pad + k
				if y < 0 || y >= p.of.Height || lo >= hi {
					clear(row)
					continue
				}
				clear(row[:lo*c])
				copy(row[lo*c:hi*c], image[(y*p.of.Width+at+lo)*c:])
				clear(row[hi*c:])
			}
		}
	}
}

// scatter adds the patches in cols to an image, the transpose of gather (col2im).
func (p patches) scatter(image, cols []float32) {
	c, run := p.of.Channels, p.kernel*p.of.Channels
	for i := range p.rows {
		for j := range p.cols {
			at := j*p.stride - p.pad
			lo, hi := p.clip(at, p.of.Width)
			for k := range p.kernel {
				row := cols[:run]
				cols = cols[run:]
				y := i*p.stride - p.pad + k
				if y < 0 || y >= p.of.Height || lo >= hi {
					continue
				}
				vector.AddScaled(image[(y*p.of.Width+at+lo)*c:(y*p.of.Width+at+hi)*c], row[lo*c:hi*c], 1)
			}
		}
	}
}
