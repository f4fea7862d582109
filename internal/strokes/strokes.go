package strokes

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition"
)

const (
	// cells is the number of rows and columns of the grid; coarse is that for the image at half the size.
	cells, coarse = 7, 4
	// turns is the number of directions in which brightness rises; half of them are opposites of the others.
	turns = 8
	// perChannel is the number of strokes of a channel.
	perChannel = turns*(cells*cells+coarse*coarse) + cells*cells
	// LeastSide is the smallest height and width of an image that has strokes.
	LeastSide = 8
)

// Count is the number of strokes of an image.
func Count(image partition.Image) int { return image.Channels * perChannel }

// Check refuses images that have no strokes.
func Check(image *partition.Image) error {
	if image == nil {
		return fmt.Errorf("the schema is of a table, and strokes are those of images")
	}
	if image.Height < LeastSide || image.Width < LeastSide {
		return fmt.Errorf("images of %d x %d pixels are too small for strokes; %d x %d is the least", image.Height,
			image.Width, LeastSide, LeastSide)
	}
	return nil
}

// plane is one channel of an image.
type plane struct {
	height, width int
	at            []float32
}

// take copies a channel of an image with pixels in [0, 1].
func (p *plane) take(image partition.Image, x []float32, channel int) {
	p.height, p.width, p.at = image.Height, image.Width, p.at[:0]
	for i := channel; i < len(x); i += image.Channels {
		p.at = append(p.at, x[i])
	}
}

// halve makes a plane of half the size; it leaves out an odd last row or column.
func (p *plane) halve(of *plane) {
	p.height, p.width, p.at = of.height/2, of.width/2, p.at[:0]
	for y := range p.height {
		upper, lower := of.at[2*y*of.width:], of.at[(2*y+1)*of.width:]
		for x := range p.width {
			p.at = append(p.at, (upper[2*x]+upper[2*x+1]+lower[2*x]+lower[2*x+1])/4)
		}
	}
}

// rises adds the mean rise of brightness in each turn to its cell; dst has shape [turns, grid, grid].
func (p *plane) rises(dst []float32, grid int) {
	scale := float32(grid*grid) / float32(p.height*p.width)
	for y := range p.height {
		up, down := max(y-1, 0)*p.width, min(y+1, p.height-1)*p.width
		row, cell := y*p.width, y*grid/p.height*grid
		for x := range p.width {
			dx := p.at[row+min(x+1, p.width-1)] - p.at[row+max(x-1, 0)]
			dy := p.at[down+x] - p.at[up+x]
			if dx == 0 && dy == 0 {
				continue
			}
			here := cell + x*grid/p.width
			for k, c := range compass {
				rise, turn := scale*(dx*c[0]+dy*c[1]), k
				if rise < 0 {
					rise, turn = -rise, k+turns/2
				}
				dst[turn*grid*grid+here] += rise
			}
		}
	}
}

// brightness adds the mean of each cell; dst has shape [cells, cells].
func (p *plane) brightness(dst []float32) {
	scale := float32(cells*cells) / float32(p.height*p.width)
	for i, v := range p.at {
		dst[i/p.width*cells/p.height*cells+i%p.width*cells/p.width] += scale * v
	}
}

// compass holds one of each pair of opposite turns.
var compass = func() (all [turns / 2][2]float32) {
	for k := range all {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / turns)
		all[k] = [2]float32{float32(cos), float32(sin)}
	}
	return all
}()

// finder computes strokes. It is not safe for concurrent use.
type finder struct {
	image       partition.Image
	whole, half plane
}

// find writes the strokes of an image x to dst, of [Count] numbers.
func (f *finder) find(dst, x []float32) {
	clear(dst)
	for c := range f.image.Channels {
		f.whole.take(f.image, x, c)
		f.half.halve(&f.whole)
		of := dst[c*perChannel : (c+1)*perChannel]
		f.whole.rises(of[:turns*cells*cells], cells)
		of = of[turns*cells*cells:]
		f.half.rises(of[:turns*coarse*coarse], coarse)
		f.whole.brightness(of[turns*coarse*coarse:])
	}
}

// Of returns the strokes of images x, shape [n, Count].
func Of(image partition.Image, x []float32) []float32 {
	f, size, count := finder{image: image}, image.Size(), Count(image)
	all := make([]float32, len(x)/size*count)
	for i := range len(x) / size {
		f.find(all[i*count:(i+1)*count], x[i*size:(i+1)*size])
	}
	return all
}
