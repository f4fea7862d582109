package embedding

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/projection"
)

const (
	// PatchSide is the height and width of a patch; patchStep is how far the next one is.
	PatchSide, patchStep = 5, 2
	// patchGrid is the number of rows and columns of the grid of cells, or less for small images.
	patchGrid = 7
)

// patches is the part of random waves of the small squares of an image: in each cell of a grid, the mean cosine of
// each wave over the squares in it, followed by the mean sines. A square's wave shows its strokes and texture; the
// cell shows where.
//
// Cosine and sine of a square's wave are a point on a circle, and their means over the squares of a cell lie within it.
// So with c cells and m waves the numbers of any image, times weight/sqrt(c m), have at most the norm of the weight.
type patches struct {
	image  partition.Image
	m      int
	scale  float32
	matrix kernel.Matrix // [PatchSide * PatchSide * channels, m]
	// first is the first number of each square, cell its cell, share one over the squares of a cell.
	first, cell []int
	share       []float32
}

func newPatches(p Part, e *encode.Encoder, room int) (block, error) {
	image := e.Image()
	if image == nil {
		return nil, errors.New("patches are of images, and the schema is of a table; leave them out")
	}
	down, across := (image.Height-PatchSide)/patchStep+1, (image.Width-PatchSide)/patchStep+1
	if image.Height < PatchSide || image.Width < PatchSide {
		return nil, fmt.Errorf("images of %d x %d have no room for patches of %d x %d; leave patches out", image.Height,
			image.Width, PatchSide, PatchSide)
	}
	rows, columns := min(patchGrid, down), min(patchGrid, across)
	cells := rows * columns
	if p.Count > room/(2*cells) {
		return nil, errRoom(2*cells*p.Count, room)
	}
	inputs := PatchSide * PatchSide * image.Channels
	data, err := projection.Frequencies(inputs, p.Count, p.Spread, p.Seed)
	if err != nil {
		return nil, err
	}
	if err := checkAngles(data, p.Count); err != nil {
		return nil, err
	}
	f := &patches{image: *image, m: p.Count, scale: float32(p.Weight / math.Sqrt(float64(cells*p.Count))),
		matrix: kernel.Of(data, inputs, p.Count), share: make([]float32, cells)}
	for y := range down {
		for x := range across {
			cell := y*rows/down*columns + x*columns/across
			f.first = append(f.first, (y*image.Width+x)*patchStep*image.Channels)
			f.cell = append(f.cell, cell)
			f.share[cell]++
		}
	}
	for i, squares := range f.share {
		f.share[i] = 1 / squares
	}
	return f, nil
}

func (f *patches) count() int { return 2 * len(f.share) * f.m }

func (f *patches) groups() []int { return []int{f.count()} }

func (f *patches) pass() pass { return &patchesPass{patches: f} }

// patchesPass holds the numbers of n records, shape [n, count]. The waves of a record's squares are computed again for
// its slope: those of all records would take much memory.
type patchesPass struct {
	*patches
	x       []float32
	n       int
	numbers []float32
	squares []float32
	// cosine and sine are those of one record, shape [squares, m].
	cosine, sine []float32
}

// waves computes the waves of one record's squares.
func (f *patchesPass) waves(row []float32) {
	n, inputs, line := len(f.first), f.matrix.Rows, PatchSide*f.image.Channels
	f.squares = tensor.Resize(f.squares, n*inputs)
	f.cosine, f.sine = tensor.Resize(f.cosine, n*f.m), tensor.Resize(f.sine, n*f.m)
	for i, first := range f.first {
		to := f.squares[i*inputs : (i+1)*inputs]
		for y := range PatchSide {
			from := row[first+y*f.image.Width*f.image.Channels:]
			for k := range line {
				to[y*line+k] = unit(from[k])
			}
		}
	}
	gemm.Multiply(kernel.Of(f.cosine, n, f.m), kernel.Of(f.squares, n, inputs), f.matrix, gemm.Epilogue{})
	vector.Sine(f.sine, f.cosine)
	vector.Cosine(f.cosine, f.cosine)
}

func (f *patchesPass) take(x []float32, n int) {
	f.x, f.n = x, n
	width, count := f.image.Size(), f.count()
	f.numbers = tensor.Resize(f.numbers, n*count)
	clear(f.numbers)
	for i := range n {
		f.waves(x[i*width : (i+1)*width])
		for k, cell := range f.cell {
			to, share := f.numbers[i*count+2*cell*f.m:], f.scale*f.share[cell]
			vector.AddScaled(to[:f.m], f.cosine[k*f.m:(k+1)*f.m], share)
			vector.AddScaled(to[f.m:2*f.m], f.sine[k*f.m:(k+1)*f.m], share)
		}
	}
}

func (f *patchesPass) each(i int, first int32, at []int32, values []float32) ([]int32, []float32) {
	count := f.count()
	for j := range int32(count) {
		at = append(at, first+j)
	}
	return at, append(values, f.numbers[i*count:(i+1)*count]...)
}

func (f *patchesPass) sum(i int, dst []float64) {
	for j, v := range f.numbers[i*len(dst) : (i+1)*len(dst)] {
		dst[j] += float64(v)
	}
}

func (f *patchesPass) slope(dx []float32, weights func(i int) []float32) {
	width, inputs, line := f.image.Size(), f.matrix.Rows, PatchSide*f.image.Channels
	for i := range f.n {
		f.waves(f.x[i*width : (i+1)*width])
		w := weights(i)
		for k, cell := range f.cell { // the derivative by each angle takes the place of its cosine
			of, share := w[2*cell*f.m:], f.scale*f.share[cell]
			sine := f.sine[k*f.m : (k+1)*f.m]
			for j, c := range f.cosine[k*f.m : (k+1)*f.m] {
				f.cosine[k*f.m+j] = share * (of[f.m+j]*c - of[j]*sine[j])
			}
		}
		gemm.Multiply(kernel.Of(f.squares, len(f.first), inputs), kernel.Of(f.cosine, len(f.first), f.m),
			f.matrix.T(), gemm.Epilogue{})
		to := dx[i*width : (i+1)*width]
		for k, first := range f.first {
			for y := range PatchSide {
				at := first + y*f.image.Width*f.image.Channels
				vector.AddScaled(to[at:at+line], f.squares[k*inputs+y*line:k*inputs+(y+1)*line], 1)
			}
		}
	}
}
