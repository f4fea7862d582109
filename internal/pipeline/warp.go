package pipeline

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/partition"
)

// Spreads of the random maps of a warp of strength 1: turns in radians, shears and
// logarithms of scales without a unit, shifts in parts of a side.
const (
	warpTurn  = 0.15
	warpShear = 0.15
	warpScale = 0.1
	warpShift = 1.0 / 28
)

// warp is the last step of a generator of images: a small random affine map of each, by bilinear interpolation.
// It is public knowledge that images look similar when they are turned, sheared, scaled and moved a little, so
// the network need not learn it from answers that cost budget.
type warp struct {
	shape    partition.Image
	strength float64
	// maps are the maps of the last images: from positions in the result, relative to the middle, to positions in
	// the image.
	maps [][6]float32
	base []float32 // scratch: images or gradients before the maps
}

func (w *warp) draw(n int, rng *rand.Rand) {
	w.maps = w.maps[:0]
	for range n {
		turn, shear := warpTurn*w.strength*rng.NormFloat64(), warpShear*w.strength*rng.NormFloat64()
		sx, sy := math.Exp(warpScale*w.strength*rng.NormFloat64()), math.Exp(warpScale*w.strength*rng.NormFloat64())
		dx := warpShift * w.strength * float64(w.shape.Width) * rng.NormFloat64()
		dy := warpShift * w.strength * float64(w.shape.Height) * rng.NormFloat64()
		sin, cos := math.Sincos(turn)
		w.maps = append(w.maps, [6]float32{
			float32(sx * (cos + shear*sin)), float32(sx * (shear*cos - sin)), float32(dx),
			float32(sy * sin), float32(sy * cos), float32(dy),
		})
	}
}

func (w *warp) forward(images []float32) {
	size := w.shape.Size()
	w.base = append(w.base[:0], images...)
	clear(images)
	for k := range w.maps {
		to, from := images[k*size:(k+1)*size], w.base[k*size:(k+1)*size]
		w.each(k, func(result, source int, weight float32) {
			for c := range w.shape.Channels {
				to[result+c] += weight * from[source+c]
			}
		})
	}
}

// backward converts gradients by the mapped images, in place, into gradients by the images.
func (w *warp) backward(grad []float32) {
	size := w.shape.Size()
	w.base = append(w.base[:0], grad...)
	clear(grad)
	for k := range w.maps {
		to, from := grad[k*size:(k+1)*size], w.base[k*size:(k+1)*size]
		w.each(k, func(result, source int, weight float32) {
			for c := range w.shape.Channels {
				to[source+c] += weight * from[result+c]
			}
		})
	}
}

// each calls f with the weight of each source pixel in each pixel of the result of image k. Pixels are
// identified by the indices of their first channels. Outside the image everything is 0.
func (w *warp) each(k int, f func(result, source int, weight float32)) {
	m, width, height, channels := w.maps[k], w.shape.Width, w.shape.Height, w.shape.Channels
	midX, midY := float32(width-1)/2, float32(height-1)/2
	for y := range height {
		v := float32(y) - midY
		for x := range width {
			u := float32(x) - midX
			px, py := m[0]*u+m[1]*v+m[2]+midX, m[3]*u+m[4]*v+m[5]+midY
			if !(px > -1 && px < float32(width) && py > -1 && py < float32(height)) {
				continue
			}
			left, top := int(math.Floor(float64(px))), int(math.Floor(float64(py)))
			wx, wy := px-float32(left), py-float32(top)
			result := (y*width + x) * channels
			for _, corner := range [4]struct {
				x, y   int
				weight float32
			}{{left, top, (1 - wx) * (1 - wy)}, {left + 1, top, wx * (1 - wy)}, {left, top + 1, (1 - wx) * wy},
				{left + 1, top + 1, wx * wy}} {
				if corner.x >= 0 && corner.x < width && corner.y >= 0 && corner.y < height {
					f(result, (corner.y*width+corner.x)*channels, corner.weight)
				}
			}
		}
	}
}
