package main

import (
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
)

// picture is a scatter plot of points of several kinds side by side, a row for each result, with a ring around
// each mode.
func picture(rows []*result) *image.RGBA {
	const size, gap = 300, 8
	columns := 1
	for _, r := range rows {
		columns = max(columns, len(r.points))
	}
	m := image.NewRGBA(image.Rect(0, 0, columns*(size+gap)+gap, len(rows)*(size+gap)+gap))
	for i := range m.Pix {
		m.Pix[i] = 0xff
	}
	frame, mode, point := color.RGBA{0xcc, 0xcc, 0xcc, 0xff}, color.RGBA{0xf0, 0x90, 0x80, 0xff},
		color.RGBA{0x10, 0x40, 0xa0, 0xff}
	at := func(v float64) float32 { return float32((v - lower) / (upper - lower)) }
	for j, r := range rows {
		for k, x := range r.points {
			left, top := gap+k*(size+gap), gap+j*(size+gap)
			for i := range size {
				for _, at := range [][2]int{{i, 0}, {i, size - 1}, {0, i}, {size - 1, i}} {
					m.SetRGBA(left+at[0], top+at[1], frame)
				}
			}
			set := func(x, y float32, c color.RGBA) {
				m.SetRGBA(left+int(x*(size-1)), top+int((1-y)*(size-1)), c)
			}
			for a := range side {
				for b := range side {
					ring(set, at(centre(a)), at(centre(b)), mode)
				}
			}
			for i := 0; i < len(x); i += 2 {
				set(x[i], x[i+1], point)
			}
		}
	}
	return m
}

// ring draws around a mode, slightly wider than the ellipse of 99%, which is only some pixels wide.
func ring(set func(x, y float32, c color.RGBA), x, y float32, red color.RGBA) {
	const radius, points = 0.02, 90
	for i := range points {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / points)
		set(x+radius*float32(cos), y+radius*float32(sin), red)
	}
}

func savePicture(path string, rows []*result) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, picture(rows)); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
