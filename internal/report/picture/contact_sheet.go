package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"github.com/conclave-dp/conclave/partition/idx"
)

// sheetGap is the space between images of a contact sheet, in pixels.
const sheetGap = 2

const maxSheetPixels = 100_000_000

// ErrSheetTooLarge says that a contact sheet would have too many pixels.
var ErrSheetTooLarge = errors.New("the contact sheet would be too large; draw fewer images")

// ContactSheet draws the first images of every class, one class a row, as a PNG on
// white. Images are grey or have three channels. It fails for none, for a class
// that is not one of classes, for other channels, and with ErrSheetTooLarge.
func ContactSheet(x *idx.Images, classes, perClass int) ([]byte, error) {
	if x == nil || x.Len() == 0 || classes < 1 || perClass < 1 {
		return nil, errors.New("contact sheet: there are no images to draw")
	}
	if c := x.Shape.Channels; c != 1 && c != 3 {
		return nil, fmt.Errorf("contact sheet: images of %d channels; only 1 and 3 can be drawn", c)
	}
	w, h := x.Shape.Width+sheetGap, x.Shape.Height+sheetGap
	if perClass > maxSheetPixels/w || classes > maxSheetPixels/h ||
		perClass*w+sheetGap > maxSheetPixels/(classes*h+sheetGap) {
		return nil, ErrSheetTooLarge
	}
	size := image.Rect(0, 0, perClass*w+sheetGap, classes*h+sheetGap)
	var sheet draw.Image = image.NewGray(size) // a third of the bytes of colours
	if x.Shape.Channels == 3 {
		sheet = image.NewRGBA(size)
	}
	draw.Draw(sheet, size, image.White, image.Point{}, draw.Src)
	drawn := make([]int, classes)
	for i, class := range x.Classes {
		if class < 0 || class >= classes {
			return nil, fmt.Errorf("contact sheet: image %d is of class %d of %d", i+1, class, classes)
		}
		if drawn[class] == perClass {
			continue
		}
		left, top := sheetGap+drawn[class]*w, sheetGap+class*h
		drawn[class]++
		pixels := x.Image(i)
		for p := range x.Shape.Height * x.Shape.Width {
			at := pixels[p*x.Shape.Channels:]
			c := color.RGBA{at[0], at[0], at[0], 0xff}
			if x.Shape.Channels == 3 {
				c.G, c.B = at[1], at[2]
			}
			sheet.Set(left+p%x.Shape.Width, top+p/x.Shape.Width, c)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, sheet); err != nil {
		return nil, fmt.Errorf("contact sheet: %w", err)
	}
	return out.Bytes(), nil
}

// FullSheet draws all images as a PNG, perLine in a line: one class after the other, each starting a new line. It
// fails like ContactSheet.
func FullSheet(x *idx.Images, classes, perLine int) ([]byte, error) {
	if x == nil || x.Len() == 0 || classes < 1 || perLine < 1 {
		return ContactSheet(nil, classes, perLine)
	}
	count := make([]int, classes)
	for i, class := range x.Classes {
		if class < 0 || class >= classes {
			return nil, fmt.Errorf("contact sheet: image %d is of class %d of %d", i+1, class, classes)
		}
		count[class]++
	}
	first, lines := make([]int, classes), 0
	for class, n := range count {
		first[class] = lines
		lines += (n + perLine - 1) / perLine
	}
	// ContactSheet treats each line as a class.
	byLine := &idx.Images{Shape: x.Shape, Pixels: x.Pixels, Classes: make([]int, x.Len())}
	clear(count)
	for i, class := range x.Classes {
		byLine.Classes[i] = first[class] + count[class]/perLine
		count[class]++
	}
	return ContactSheet(byLine, lines, perLine)
}
