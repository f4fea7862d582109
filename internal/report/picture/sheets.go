package picture

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image/png"
)

// Sheet is a contact sheet of images, in one PNG file that becomes part of
// the page. With Real it shows real images: NOT PRIVATE.
type Sheet struct {
	Name string
	PNG  []byte
	Real bool
}

// DrawnSheet is a Sheet as the page shows it.
type DrawnSheet struct {
	Name          string
	Real          bool
	Source        template.URL
	Width, Height int
	Summary       string
}

// MaxSheetBytes is the largest sheet on a page, which must stay small enough for mail.
const MaxSheetBytes = 4 << 20

// NewSheets makes contact sheets part of a page. It fails for one that is too large or no PNG.
func NewSheets(images []Sheet) ([]DrawnSheet, error) {
	var sheets []DrawnSheet
	for _, image := range images {
		if len(image.PNG) > MaxSheetBytes {
			return nil, fmt.Errorf("image sheet %q has %d bytes, more than %d: show fewer images", image.Name,
				len(image.PNG), MaxSheetBytes)
		}
		size, err := png.DecodeConfig(bytes.NewReader(image.PNG))
		if err != nil {
			return nil, fmt.Errorf("image sheet %q is no PNG: %w", image.Name, err)
		}
		s := DrawnSheet{Name: image.Name, Real: image.Real, Width: size.Width, Height: size.Height,
			Summary: "Synthetic images: " + image.Name}
		if image.Real {
			s.Summary = "Real images: " + image.Name
		}
		// Base64 of bytes that start like a PNG can be nothing but an image.
		s.Source = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(image.PNG))
		sheets = append(sheets, s)
	}
	return sheets, nil
}
