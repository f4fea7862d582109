package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type sample struct {
	Name  string        `yaml:"name"`
	Count int           `yaml:"count"`
	Wait  time.Duration `yaml:"wait"`
	TLS   struct {
		CA string `yaml:"ca"`
	} `yaml:"tls"`
	List []string `yaml:"list"`
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "role.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadKeepsDefaultsAndPrefersTheEnvironment(t *testing.T) {
	t.Setenv("CONCLAVE_TLS_CA", "other.crt")
	t.Setenv("CONCLAVE_WAIT", "3s")
	got := sample{Name: "default", Count: 7}
	if err := Load(write(t, "wait: 1m\nlist: [a, b]\ntls: {ca: ca.crt}\n"), &got); err != nil {
		t.Fatal(err)
	}
	want := sample{Name: "default", Count: 7, Wait: 3 * time.Second, List: []string{"a", "b"}}
	want.TLS.CA = "other.crt"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadOfAnEmptyFileKeepsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing set\n"} {
		got := sample{Name: "default", Count: 7}
		if err := Load(write(t, text), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample{Name: "default", Count: 7}, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestLoadRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct{ text, env, want string }{
		"unknown field":     {text: "nmae: x\n", want: "nmae"},
		"nested unknown":    {text: "tls: {caa: x}\n", want: "caa"},
		"wrong type":        {text: "count: many\n", want: "count"},
		"duplicate":         {text: "name: a\nname: b\n", want: "name"},
		"two documents":     {text: "name: a\n---\nname: b\n", want: "one"},
		"bad environment":   {text: "name: a\n", env: "many", want: "CONCLAVE_COUNT"},
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
