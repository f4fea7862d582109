package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func sampleTensors() *Set {
	t := New()
	t.Metadata["step"] = "12"
	t.ByName["b"] = Tensor{Shape: []int{2, 2}, Data: []float32{1, -2, 3.5, float32(math.Inf(1))}}
	t.ByName["a"] = Tensor{Shape: []int{0}, Data: []float32{}}
	t.ByName["scalar"] = Tensor{Shape: []int{}, Data: []float32{7}}
	return t
}

func TestTensorsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	testkit.Must(t, Save(path, sampleTensors()))
	got, err := Load(path)
	testkit.Must(t, err)
	testkit.Same(t, "", sampleTensors(), got)
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("folder holds %v after saving, %v", left, err)
	}
}

// The data begins at a multiple of 8 bytes, and what was read can be sealed.
func TestTensorsWithoutMetadata(t *testing.T) {
	for n := range 9 {
		var b bytes.Buffer
		set := &Set{ByName: map[string]Tensor{strings.Repeat("x", 1+n): {Shape: []int{1}, Data: []float32{1}}}}
		testkit.Must(t, Write(&b, set))
		if at := b.Len() - 4; at%8 != 0 {
			t.Errorf("data begins at byte %d", at)
		}
	}
	const header = `{"__metadata__":null}`
	set, err := Read(strings.NewReader(string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header))
	testkit.Must(t, err)
	if err := set.Seal(); err != nil {
		t.Error(err)
	}
}

// A process that was killed while it saved left a part, which goes with the file. Other files stay.
func TestRemoveTakesTheParts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	testkit.Must(t, Save(path, sampleTensors()))
	part, err := os.CreateTemp(dir, partPrefix(path)+"*")
	testkit.Must(t, errors.Join(err, part.Close()))
	others := []string{".x.safetensors-5.safetensors-7", "x.safetensors-5", "y.safetensors"}
	for _, name := range others {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for range 2 {
		testkit.Must(t, Remove(path))
		testkit.Same(t, "", others, testkit.Names(t, dir))
	}
	testkit.Must(t, Remove(filepath.Join(dir, "no folder", "x.safetensors")))
}

func TestReadTensorsRefusesDamage(t *testing.T) {
	var b bytes.Buffer
	testkit.Must(t, Write(&b, sampleTensors()))
	file := func(header, data string) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
	}
	for name, raw := range map[string][]byte{
		"empty":       nil,
		"short":       b.Bytes()[:5],
		"cut header":  b.Bytes()[:20],
		"cut data":    b.Bytes()[:b.Len()-1],
		"huge header": binary.LittleEndian.AppendUint64(nil, 1<<60),
		"not JSON":    file("nonsense", ""),
		"other type":  file(`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`, "12345678"),
		"whole":       file(`{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}`, "1234"),
		"before":      file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, "1234"),
		"backwards":   file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}}`, "1234"),
		"shape":       file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"),
		"negative":    file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "1234"),
		"overflow":    file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, ""),
		"offsets":     file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "1234"),
	} {
		if _, err := Read(bytes.NewReader(raw)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestCopyToNeedsEveryTensor(t *testing.T) {
	set := sampleTensors()
	into := make([]float32, 4)
	if err := set.CopyTo("", []tensor.Param{{Name: "b", Shape: []int{2, 2}, Value: into}}); err != nil ||
		into[1] != -2 {
		t.Errorf("copied %v, %v", into, err)
	}
	if set.CopyTo("", []tensor.Param{{Name: "c", Value: into}}) == nil {
		t.Error("a missing tensor was accepted")
	}
	for _, p := range []tensor.Param{{Name: "b", Shape: []int{3}, Value: into[:3]},
		{Name: "b", Shape: []int{4}, Value: into}, {Name: "b", Shape: []int{2, 2}, Value: into[:3]}} {
		if set.CopyTo("", []tensor.Param{p}) == nil {
			t.Errorf("shape %v with %d values was accepted", p.Shape, len(p.Value))
		}
	}
}

func FuzzReadTensors(f *testing.F) {
	var b bytes.Buffer
	testkit.Must(f, Write(&b, sampleTensors()))
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 2), "{}"...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		set, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, set); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
