package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/testkit"
)

type sample struct {
	Name  string        `yaml:"name"`
	Count int           `yaml:"count"`
	Wait  time.Duration `yaml:"wait"`
	TLS   struct {
		CA string `yaml:"ca"`
	} `yaml:"tls"`
	List   []string `yaml:"list"`
	Nested `yaml:",inline"`
}

type Nested struct {
	Inner string  `yaml:"inner"`
	Whole int     `yaml:"whole"`
	Part  float64 `yaml:"part"`
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "role.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoadKeepsDefaultsAndPrefersTheEnvironment(t *testing.T) {
	t.Setenv("CONCLAVE_TLS_CA", "other.crt")
	t.Setenv("CONCLAVE_WAIT", "3s")
	got := sample{Name: "default", Count: 7}
	testkit.Must(t, Load(write(t, "wait: 1m\nlist: [a, b]\ntls: {ca: ca.crt}\n"), &got))
	want := sample{Name: "default", Count: 7, Wait: 3 * time.Second, List: []string{"a", "b"}}
	want.TLS.CA = "other.crt"
	testkit.Same(t, "", want, got)
}

// Fields of an inlined struct are those of the struct that has it.
func TestLoadTakesInlinedFields(t *testing.T) {
	t.Setenv("CONCLAVE_WHOLE", "9")
	got := sample{Nested: Nested{Part: 0.5}}
	testkit.Must(t, Load(write(t, "name: x\ninner: y\nwhole: 3\n"), &got))
	testkit.Same(t, "", sample{Name: "x", Nested: Nested{"y", 9, 0.5}}, got)
	for text, want := range map[string]string{
		"innr: y":    `unknown field "innr"`,
		"whole: 1.5": "whole: want a whole number, not 1.5",
		"inner:":     "inner: has no value",
	} {
		if err := Load(write(t, text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// Some editors put a byte order mark in front.
func TestLoadForgivesAByteOrderMark(t *testing.T) {
	var got sample
	text, err := LoadText(write(t, "\ufeffname: x\n"), &got)
	if err != nil || got.Name != "x" || text != "name: x\n" {
		t.Errorf("%+v from %q, %v", got, text, err)
	}
	if err := Load(write(t, "\ufeff"), &got); err != nil || got.Name != "x" {
		t.Errorf("a mark alone: %+v, %v", got, err)
	}
	err = Load(write(t, "\ufeffnmae: x\n"), &got)
	if err == nil || !strings.Contains(err.Error(), `line 1, column 1: unknown field "nmae"`) {
		t.Errorf("a slip behind a mark: %v", err)
	}
	if err := Load(write(t, "name: \ufeff\n"), &got); err != nil || got.Name != "\ufeff" {
		t.Errorf("the mark elsewhere: %+v, %v", got, err)
	}
}

func TestLoadOfAnEmptyFileKeepsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing set\n"} {
		got := sample{Name: "default", Count: 7}
		testkit.Must(t, Load(write(t, text), &got))
		if diff := cmp.Diff(sample{Name: "default", Count: 7}, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestLoadRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct{ text, env, want string }{
		"unknown field": {text: "nmae: x\n",
			want: `line 1, column 1: unknown field "nmae"; correct its name or remove it`},
		"nested unknown": {text: "name: x\ntls: {caa: x}\n", want: `line 2, column 7: unknown field "caa"`},
		"wrong type":     {text: "count: many\n", want: "line 1, column 8: count: want a whole number"},
		"octal number":   {text: "count: 010\n", want: "line 1, column 8: count: want a decimal number without a zero"},
		"wrong duration": {text: "wait: soon\n", want: "duration"},
		"map for a text": {text: "name: {a: b}\n", want: "line 1"},
		"text for a map": {text: "tls: x\n", want: "line 1"},
		"too large":      {text: "count: 99999999999999999999\n", want: "want a whole number"},
		"duplicate":      {text: "name: a\nname: b\n", want: "line 2, column 1"},
		"broken YAML":    {text: "name: [a\n", want: "role.yaml: line 1"},
		"two documents":  {text: "name: a\n---\nname: b\n", want: "more than one YAML document; keep only one"},
		"bad environment": {text: "name: a\n", env: "many",
			want: "environment variable CONCLAVE_COUNT: want a whole number"},
		"not a YAML object": {text: "- 1\n- 2\n", want: "role.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("CONCLAVE_COUNT", c.env)
			}
			var s sample
			err := Load(write(t, c.text), &s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not name %q", err, c.want)
			}
		})
	}
	if err := Load(filepath.Join(t.TempDir(), "none.yaml"), &sample{}); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestTheEnvironmentIsCheckedForEveryKind(t *testing.T) {
	type kinds struct {
		Flag  bool          `yaml:"flag"`
		Wait  time.Duration `yaml:"wait"`
		Small uint32        `yaml:"small"`
		Real  float64       `yaml:"real"`
		List  []string      `yaml:"list"`
		Plain string
	}
	for name, bad := range map[string]string{
		"CONCLAVE_FLAG": "perhaps", "CONCLAVE_WAIT": "3", "CONCLAVE_SMALL": "-1", "CONCLAVE_REAL": "much",
		"CONCLAVE_LIST": "a",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, bad)
			var k kinds
			if err := Load(write(t, ""), &k); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v does not name %s", err, name)
			}
		})
	}
	for name, value := range map[string]string{"FLAG": "true", "WAIT": "3s", "SMALL": "4", "REAL": "0.5",
		"PLAIN": "x"} {
		t.Setenv("CONCLAVE_"+name, value)
	}
	var got kinds
	testkit.Must(t, Load(write(t, "flag: false\nsmall: 9\n"), &got))
	testkit.Same(t, "", kinds{Flag: true, Wait: 3 * time.Second, Small: 4, Real: 0.5}, got)
}

func TestResolve(t *testing.T) {
	for _, c := range []struct{ file, path, want string }{
		{"/etc/run.yaml", "data.csv", "/etc/data.csv"},
		{"conf/run.yaml", "../data.csv", "data.csv"},
		{"run.yaml", "data.csv", "data.csv"},
		{"/etc/run.yaml", "/data.csv", "/data.csv"},
		{"/etc/run.yaml", "", ""},
	} {
		if got := Resolve(c.file, c.path); got != c.want {
			t.Errorf("Resolve(%q, %q) = %q, want %q", c.file, c.path, got, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "name: a\ncount: 3\n", "tls: {ca: x}\nlist: [a, b]\n", "a: &b [*b]", "- {",
		"name: |\n  x", "? :", "wait: 1h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// No panic, and no success that leaves a second document unread.
		s := sample{Count: 7}
		if err := Decode(strings.NewReader(text), &s); err != nil && err.Error() == "" {
			t.Errorf("%q gave an error without a word", text)
		}
	})
}
