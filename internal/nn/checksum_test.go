package nn

import (
	"bytes"
	"errors"
	"testing"
)

// Of a sealed file every flipped bit is noticed, or changes nothing.
func TestFlippedBitsAreNoticed(t *testing.T) {
	set := NewTensors()
	set.Add("a.", []Param{{Name: "w", Shape: []int{2, 3}, Value: []float32{1, -2, 3, 0.5, 0, 9}}})
	set.Add("b.", []Param{{Name: "v", Shape: []int{2}, Value: []float32{4, 5}}})
	set.Metadata["text"] = `{"round": 3}`
	if err := set.Seal(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteTensors(&b, set); err != nil {
		t.Fatal(err)
	}
	good, err := ReadTensors(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := good.CheckSeal(); err != nil {
		t.Fatal(err)
	}
	for i := range 8 * b.Len() {
		raw := bytes.Clone(b.Bytes())
		raw[i/8] ^= 1 << (i % 8)
		got, err := ReadTensors(bytes.NewReader(raw))
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
