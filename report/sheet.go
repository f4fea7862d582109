package report

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/conclave-dp/conclave/partition"
)

// sheetGap is the space between images of a contact sheet, in pixels.
const sheetGap = 2

// ContactSheet draws the first images of every class, one class a row, as a PNG on
// white. Images are grey or have three channels. It fails for none, for a class
// that is not one of classes, and for other channels.
func ContactSheet(x *partition.Images, classes, perClass int) ([]byte, error) {
	if x == nil || x.Len() == 0 || classes < 1 || perClass < 1 {
		return nil, errors.New("contact sheet: there are no images to draw")
	}
	if c := x.Shape.Channels; c != 1 && c != 3 {
		return nil, fmt.Errorf("contact sheet: images of %d channels; only 1 and 3 can be drawn", c)
	}
	w, h := x.Shape.Width+sheetGap, x.Shape.Height+sheetGap
	sheet := image.NewRGBA(image.Rect(0, 0, perClass*w+sheetGap, classes*h+sheetGap))
	for i := range sheet.Pix {
		sheet.Pix[i] = 0xff
	}
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
			sheet.SetRGBA(left+p%x.Shape.Width, top+p/x.Shape.Width, c)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, sheet); err != nil {
		return nil, fmt.Errorf("contact sheet: %w", err)
	}
	return out.Bytes(), nil
}
