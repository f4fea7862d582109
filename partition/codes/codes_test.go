package codes_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition/codes"
)

func TestALongestPrefixCounts(t *testing.T) {
	p := codes.NewPrefixes([]string{"I", "I20", "I2", "J"})
	for code, want := range map[string]int{"I20.1": 1, "I20": 1, "I2": 2, "I21": 2, "I99": 0, "J": 3, "K": -1, "": -1} {
		got, found := p.Of(code)
		if !found {
			got = -1
		}
		if got != want {
			t.Errorf("%q belongs to %d, want %d", code, got, want)
		}
	}
}

func TestListsAreWrittenInTurn(t *testing.T) {
	p := codes.NewPrefixes([]string{"I", "I20", "J"})
	l := codes.NewList(p, []string{"I20.0", "I10", "I20.1", "K1", "I10"})
	testkit.Same(t, "empty", 2, l.Empty())
	testkit.Same(t, "in turn", []string{"I20.0", "I20.1", "I20.0", "I10"},
		[]string{l.At(1, 0), l.At(1, 1), l.At(1, 2), l.At(0, 1)})
	if l.Has("K1") || !l.Has("I10") {
		t.Error("the list has other codes")
	}
}

func TestRead(t *testing.T) {
	for name, text := range map[string]string{
		"plain lines":        "I20.0\nI20.1\n\nJ45\n",
		"header and columns": "\ufeffCode,name\nI20.0,\"Angina,\npectoris\"\n I20.1 ,other\nJ45,asthma\n",
		"semicolons":         "code;name\r\nI20.0;a, b\r\nI20.1;c\r\nJ45;d",
		"tabs":               "I20.0\ta\nI20.1\tb\nJ45\tc\n",
		"pipes":              "CODES|a\nI20.0|b;c\nI20.1|d\nJ45|e",
		"ICD":                "\n \nicd-10 GM\n\"I20.0\"\r\nI20.1\r\nJ45",
		"a word":             "Schlüssel;Text\nI20.0;A\nI20.1;B\nJ45;C",
		"quotes within":      "I20.0;5\" a\nI20.1;b \"c\nJ45;\"d\r\n\"\"e\"\r\n",
		"Latin-1 text":       "I20.0;\xe4\nI20.1;\xf6\nJ45;b",
	} {
		got, err := codes.Read(strings.NewReader(text))
		testkit.Must(t, err)
		testkit.Same(t, name, []string{"I20.0", "I20.1", "J45"}, got)
	}
	for text, want := range map[string][]string{
		"\"I20.0,a\";x\n\"J;1\"": {"I20.0,a", "J;1"},
		"A\nA01\nB02\n":          {"A", "A01", "B02"},
		"DEU\nAUT\nX1\n":         {"DEU", "AUT", "X1"},
		"DEU\n":                  {"DEU"},
	} {
		got, err := codes.Read(strings.NewReader(text))
		testkit.Must(t, err)
		testkit.Same(t, text, want, got)
	}
	for want, text := range map[string]string{
		"there is no code":                    "code\n\n",
		"there is no code; put":               "ATC-Code;Text\n",
		"line 3 has broken quotes":            "I20;a\nI21;b\nI22;\"c\" d\nI23;e\n",
		"line 2 has broken quotes":            "I20;a\nI21;\"b\nI22;c\n",
		"line 2 has another delimiter":        "Code\nI20|a\n",
		"line 1 does not begin with a code ":  "I20\rI21\r",
		"line 2 does not begin with a code ":  "I20\nI2\v1\n",
		"line 2 is not UTF-8":                 "I20\n\xff\n",
		"line 1 does not begin with a code":   strings.Repeat("x", 65),
		"the file has more than 64 MiB":       strings.Repeat(strings.Repeat("x", 63)+"\n", 1<<20+1),
		"there are more than 1048576 codes; ": strings.Repeat("x\n", 1<<20+1),
	} {
		if _, err := codes.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	icd := []string{"A00.0", "A00.1", "I20.0", "I20.1", "I20.8", "I21.0", "I21.4", "I50", "J45"}
	for most, want := range map[int][]string{
		0: nil, 2: nil,
		3: {"A", "I", "J"},
		4: {"A", "I2", "I5", "J"},
		5: {"A", "I20", "I21", "I5", "J"},
		7: {"A", "I20.0", "I20.1", "I20.8", "I21", "I5", "J"},
		// A prefix with a single code is not extended, because that would add no information.
		20: {"A00.0", "A00.1", "I20.0", "I20.1", "I20.8", "I21.0", "I21.4", "I5", "J"},
	} {
		testkit.Same(t, "prefixes", want, codes.Choose(icd, most))
	}
	testkit.Same(t, "a code that begins others", []string{"I20", "I20.0", "I20.1"},
		codes.Choose([]string{"I20.1", "I20", "I20.0", "I20", ""}, 9))
	testkit.Same(t, "no codes", []string(nil), codes.Choose(nil, 9))
}

// Every code has a prefix, every prefix a code, and there are no more prefixes than requested.
func TestChosenPrefixesHoldAllCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.StringMatching(`[AB][0-2]{0,2}(\.[0-2é]{1,2})?`)).Draw(t, "codes")
		most := rapid.IntRange(1, 12).Draw(t, "most")
		chosen := codes.Choose(all, most)
		if len(chosen) > most {
			t.Fatalf("%d prefixes of %d", len(chosen), most)
		}
		p := codes.NewPrefixes(chosen)
		if len(all) == 0 || chosen == nil {
			return
		}
		for _, code := range all {
			if _, found := p.Of(code); !found {
				t.Fatalf("%q has no prefix among %q", code, chosen)
			}
		}
		if at := codes.NewList(p, all).Empty(); at >= 0 {
			t.Fatalf("no code has the prefix %q of %q", chosen[at], chosen)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("code;name\nI20.0;\"a\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := codes.Read(strings.NewReader(text))
		if (err == nil) != (len(all) > 0) {
			t.Errorf("%d codes, error %v", len(all), err)
		}
		for _, code := range all {
			if code == "" || code != strings.TrimSpace(code) {
				t.Errorf("a code is %q", code)
			}
		}
	})
}
