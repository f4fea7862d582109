package safetensors

import (
	"bytes"
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Of a sealed file every flipped bit is noticed, or changes nothing.
func TestFlippedBitsAreNoticed(t *testing.T) {
	set := New()
	set.Add("a.", []tensor.Param{{Name: "w", Shape: []int{2, 3}, Value: []float32{1, -2, 3, 0.5, 0, 9}}})
	set.Add("b.", []tensor.Param{{Name: "v", Shape: []int{2}, Value: []float32{4, 5}}})
	set.Metadata["text"] = `{"round": 3}`
	testkit.Must(t, set.Seal())
	var b bytes.Buffer
	testkit.Must(t, Write(&b, set))
	good, err := Read(bytes.NewReader(b.Bytes()))
	testkit.Must(t, err)
	testkit.Must(t, good.CheckSeal())
	for i := range 8 * b.Len() {
		raw := bytes.Clone(b.Bytes())
		raw[i/8] ^= 1 << (i % 8)
		got, err := Read(bytes.NewReader(raw))
		if err != nil {
			continue
		}
		if err := got.CheckSeal(); err == nil {
			if again, _ := got.checksum(); again != good.Metadata[checksumKey] {
				t.Errorf("bit %d: another content was accepted", i)
			}
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: error %v", i, err)
		}
	}
	delete(good.Metadata, checksumKey)
	if err := good.CheckSeal(); !errors.Is(err, ErrDamaged) {
		t.Errorf("no checksum: error %v", err)
	}
}
