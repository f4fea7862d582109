package config

import (
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// bombs are files of at most 64 KiB that take a YAML parser gigabytes, or a stack without end.
func bombs() map[string]string {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		before := strings.Repeat("*a"+string(rune('0'+i))+", ", 9)
		laughs.WriteString("a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + before + "]\n")
	}
	var deep strings.Builder
	for i := range 300 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return map[string]string{
		"aliases":               laughs.String(),
		"a later document":      "a: 1\n---\n" + laughs.String(),
		"a merged alias":        "a: &a {b: 1}\nc:\n  <<: *a\n",
		"an anchor alone":       "name: &x y\n",
		"brackets":              strings.Repeat("[", 60_000),
		"braces":                strings.Repeat("{a: ", 15_000),
		"brackets in fields":    strings.Repeat("{a: [", 10_000),
		"dashes on one line":    strings.Repeat("- ", 30_000),
		"fields on one line":    strings.Repeat("a: ", 20_000),
		"keys that are complex": strings.Repeat("? ", 30_000),
		"indentation":           deep.String(),
		"dashes in brackets":    "a: [" + strings.Repeat("- ", 30_000) + "]\n",
		"keys in brackets":      "a: [" + strings.Repeat("? ", 30_000) + "]\n",
		"fields in brackets":    "a: [" + strings.Repeat("a: ", 20_000) + "]\n",
	}
}

func TestBombsAreRefusedBeforeTheyAreParsed(t *testing.T) {
	for name, text := range bombs() {
		var err error
		took := testkit.Allocated(func() { err = Decode(strings.NewReader(text), new(map[string]any)) })
		if err == nil || !strings.Contains(err.Error(), "nested") && !strings.Contains(err.Error(), "anchors") {
			t.Errorf("%s: %v", name, err)
		}
		// The text's own tokens take some 300 bytes a byte. A bomb takes a gigabyte and more.
		if took > 128<<20 {
			t.Errorf("%s: %d bytes are allocated", name, took)
		}
	}
	if err := CheckYAML(make([]byte, 101), 100); err == nil || !strings.Contains(err.Error(), "the maximum is 100") {
		t.Errorf("a large file: %v", err)
	}
}

func TestFilesOfOursAreNotNestedDeep(t *testing.T) {
	for name, text := range map[string]string{
		"lists of fields": "a:\n  - b: 1\n    c: [1, [2, {d: 3}]]\n  - b: 2\n",
		"short fields": strings.Repeat("- {a: 1, b: [2, {c: 3, d: {e: -1}}], f: x - y}\n", 1000) +
			"- {" + strings.Repeat("a: 1, ", 100) + "b: 2}\n",
		"many lists in a row": strings.Repeat("- [a, {b: c}]\n", 1000),
		"many fields":         strings.Repeat("a:\n  b:\n    c: 1\n", 1000),
		"text with signs":     "a: \"&b *c [[[[\"\nd: |\n  [[[ &x\n",
		"32 deep":             strings.Repeat("[", 32) + strings.Repeat("]", 32),
	} {
		if err := CheckYAML([]byte(text), MaxFile); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
