package kernel

import "testing"

func TestUseRefusesLevelsThatAreNotThere(t *testing.T) {
	before := Active()
	for _, l := range []Level{Portable - 1, Supported() + 1, AVX512 + 1} {
		if _, err := Use(l); err == nil {
			t.Errorf("level %v was accepted", l)
		}
	}
	if Active() != before {
		t.Errorf("level %v is in use, want %v", Active(), before)
	}
}
