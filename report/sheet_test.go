package report

import (
	"bytes"
	"image/color"
	"image/png"
	"testing"

	"github.com/conclave-dp/conclave/partition"
)

func TestContactSheet(t *testing.T) {
	x := &partition.Images{Shape: partition.Image{Height: 1, Width: 2, Channels: 3}, Classes: []int{1, 0, 1, 1}}
	for i := range 4 * 6 {
		x.Pixels = append(x.Pixels, byte(10*i))
	}
	raw, err := ContactSheet(x, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	sheet, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if b := sheet.Bounds(); b.Dx() != 10 || b.Dy() != 8 {
		t.Fatalf("sheet of %v", b)
	}
	white := color.RGBA{255, 255, 255, 255}
	for _, c := range []struct {
		x, y int
		want color.RGBA
	}{
		{0, 0, white}, {2, 2, color.RGBA{60, 70, 80, 255}}, {3, 2, color.RGBA{90, 100, 110, 255}}, // class 0, the second image
		{2, 5, color.RGBA{0, 10, 20, 255}}, {6, 5, color.RGBA{120, 130, 140, 255}}, // class 1, the first and the third
		{6, 2, white},
	} {
		if got := color.RGBAModel.Convert(sheet.At(c.x, c.y)); got != c.want {
			t.Errorf("pixel (%d, %d) is %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

func TestContactSheetRefuses(t *testing.T) {
	one := func(channels, class int) *partition.Images {
		return &partition.Images{Shape: partition.Image{Height: 1, Width: 1, Channels: channels}, Classes: []int{class}, Pixels: make([]byte, channels)}
	}
	for name, call := range map[string]func() ([]byte, error){
		"none":       func() ([]byte, error) { return ContactSheet(&partition.Images{}, 2, 2) },
		"nil":        func() ([]byte, error) { return ContactSheet(nil, 2, 2) },
		"no columns": func() ([]byte, error) { return ContactSheet(one(1, 0), 2, 0) },
		"channels":   func() ([]byte, error) { return ContactSheet(one(2, 0), 2, 2) },
		"class":      func() ([]byte, error) { return ContactSheet(one(1, 2), 2, 2) },
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ContactSheet(one(1, 1), 2, 2); err != nil {
		t.Error(err)
	}
}
