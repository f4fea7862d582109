package picture

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

func TestContactSheet(t *testing.T) {
	x := &idx.Images{Shape: partition.Image{Height: 1, Width: 2, Channels: 3}, Classes: []int{1, 0, 1, 1}}
	for i := range 4 * 6 {
		x.Pixels = append(x.Pixels, byte(10*i))
	}
	raw, err := ContactSheet(x, 2, 2)
	testkit.Must(t, err)
	sheet, err := png.Decode(bytes.NewReader(raw))
	testkit.Must(t, err)
	if b := sheet.Bounds(); b.Dx() != 10 || b.Dy() != 8 {
		t.Fatalf("sheet of %v", b)
	}
	white := color.RGBA{255, 255, 255, 255}
	for _, c := range []struct {
		x, y int
		want color.RGBA
	}{
		// class 0, the second image
		{0, 0, white}, {2, 2, color.RGBA{60, 70, 80, 255}}, {3, 2, color.RGBA{90, 100, 110, 255}},
		{2, 5, color.RGBA{0, 10, 20, 255}}, {6, 5, color.RGBA{120, 130, 140, 255}}, // class 1, the first and the third
		{6, 2, white},
	} {
		if got := color.RGBAModel.Convert(sheet.At(c.x, c.y)); got != c.want {
			t.Errorf("pixel (%d, %d) is %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

func TestContactSheetRefuses(t *testing.T) {
	one := func(channels, class int) *idx.Images {
		return &idx.Images{Shape: partition.Image{Height: 1, Width: 1, Channels: channels},
			Classes: []int{class}, Pixels: make([]byte, channels)}
	}
	for name, call := range map[string]func() ([]byte, error){
		"none":       func() ([]byte, error) { return ContactSheet(&idx.Images{}, 2, 2) },
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

func TestContactSheetsTooLarge(t *testing.T) {
	x := &idx.Images{Shape: partition.Image{Height: 1, Width: 1, Channels: 1}, Classes: []int{0},
		Pixels: []byte{1}}
	for _, c := range [][2]int{{1 << 14, 1 << 12}, {1, math.MaxInt / 2}, {math.MaxInt / 2, 1}} {
		if _, err := ContactSheet(x, c[0], c[1]); !errors.Is(err, ErrSheetTooLarge) {
			t.Errorf("%d classes of %d: %v", c[0], c[1], err)
		}
	}
}

// Every image is drawn, and each class begins a new line; a class without images takes none.
func TestFullSheet(t *testing.T) {
	x := &idx.Images{Shape: partition.Image{Height: 1, Width: 1, Channels: 1}, Classes: []int{3, 0, 3, 3, 0},
		Pixels: []byte{30, 1, 31, 32, 2}}
	raw, err := FullSheet(x, 4, 2)
	testkit.Must(t, err)
	sheet, err := png.Decode(bytes.NewReader(raw))
	testkit.Must(t, err)
	if b := sheet.Bounds(); b.Dx() != 8 || b.Dy() != 11 {
		t.Fatalf("sheet of %v", b)
	}
	for at, want := range map[image.Point]uint8{{X: 2, Y: 2}: 1, {X: 5, Y: 2}: 2, {X: 2, Y: 5}: 30, {X: 5, Y: 5}: 31,
		{X: 2, Y: 8}: 32, {X: 5, Y: 8}: 255} {
		if got := color.GrayModel.Convert(sheet.At(at.X, at.Y)).(color.Gray).Y; got != want {
			t.Errorf("pixel %v is %d, want %d", at, got, want)
		}
	}
	x.Classes[0] = 4
	for name, x := range map[string]*idx.Images{"class": x, "nil": nil, "none": {}} {
		if _, err := FullSheet(x, 4, 2); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
