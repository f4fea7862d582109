package certificate

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/google/go-cmp/cmp"
)

func TestNewSaysWhatTheLedgerSays(t *testing.T) {
	raw, c, last := example(t)
	want := []Mechanism{
		{Kind: privacy.Laplace, Parameters: map[string]float64{"epsilon": 0.05}, Count: 1},
		{Kind: privacy.GNMax, Parameters: map[string]float64{"sigma": 112}, Count: 6 * 64},
		{Kind: privacy.ConfidentGNMax, Parameters: map[string]float64{"threshold": 0, "sigma1": 200, "sigma2": 120,
			"answered": 31}, Count: 64},
	}
	if diff := cmp.Diff(want, c.Mechanisms); diff != "" {
		t.Errorf("mechanisms (-want +got):\n%s", diff)
	}
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw))
	testkit.Must(t, err)
	// The smallest proof of all, so never above the running figure of the entries.
	price := verified.Runs[run].Price
	if c.Epsilon != 1 || c.Delta != 1e-5 || c.EpsilonSpent != price.Epsilon || c.Accountant != price.Accountant ||
		c.EpsilonSpent > last {
		t.Errorf("epsilon %v, delta %v, spent %v by %s; want 1, 1e-5, %v by %s, at most %v", c.Epsilon, c.Delta,
			c.EpsilonSpent, c.Accountant, price.Epsilon, price.Accountant, last)
	}
	if c.Created != "2026-03-01" {
		t.Errorf("created %q", c.Created)
	}
}

// Every number of a mechanism is among its parameters, by its name in the ledger.
func TestMechanismsHaveTheirParameters(t *testing.T) {
	got := Mechanisms([]privacy.Event{
		{Kind: privacy.SubsampledGaussian, Rate: 0.05, NoiseMultiplier: 1.5, Count: 3},
		{Kind: privacy.Gaussian, Sigma: 2, Sensitivity: 1, Count: 1},
		{Kind: privacy.SubsampledGaussian, Rate: 1, NoiseMultiplier: 1.5, Count: 1},
		{Kind: privacy.SubsampledGaussian, Rate: 0.05, NoiseMultiplier: 1.5, Count: 4},
	})
	want := []Mechanism{
		{Kind: privacy.SubsampledGaussian, Parameters: map[string]float64{"rate": 0.05, "noise_multiplier": 1.5},
			Count: 7},
		{Kind: privacy.Gaussian, Parameters: map[string]float64{"sigma": 2, "sensitivity": 1}, Count: 1},
		{Kind: privacy.SubsampledGaussian, Parameters: map[string]float64{"rate": 1, "noise_multiplier": 1.5},
			Count: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mechanisms (-want +got):\n%s", diff)
	}
	if text := got[0].String(); text != "subsampled-gaussian(noise_multiplier=1.5, rate=0.05) x 7" {
		t.Errorf("as text: %s", text)
	}
	// No field of an event is missing: the JSON fields are the parameters, except the counts.
	for _, e := range []privacy.Event{
		{Kind: privacy.SubsampledGaussian, Rate: 0.05, NoiseMultiplier: 1.5, Count: 3},
		{Kind: privacy.Gaussian, Sigma: 2, Sensitivity: 1, Count: 1},
		{Kind: privacy.Laplace, Epsilon: 1, Count: 1}, {Kind: privacy.GNMax, Sigma: 3, Count: 1},
		{Kind: privacy.LNMax, Lambda: 3, Count: 1},
		{Kind: privacy.ConfidentGNMax, Threshold: 5, Sigma1: 3, Sigma2: 4, Asked: 9, Answered: 4},
		{Kind: privacy.Exponential, Epsilon: 1, Count: 2},
	} {
		raw, err := json.Marshal(e)
		testkit.Must(t, err)
		var fields map[string]any
		testkit.Must(t, json.Unmarshal(raw, &fields))
		for _, name := range []string{"kind", "count", "asked"} {
			delete(fields, name)
		}
		m := Mechanisms([]privacy.Event{e})[0]
		if len(fields) != len(m.Parameters) {
			t.Errorf("%s has parameters %v, its event %v", e.Kind, m.Parameters, fields)
		}
		for name := range fields {
			if _, ok := m.Parameters[name]; !ok {
				t.Errorf("%s: %s is not among the parameters %v", e.Kind, name, m.Parameters)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	open := ledger.Verification{Runs: map[string]ledger.RunTotal{run: {}}}
	if _, err := New(facts(), open); !errors.Is(err, ErrOpenRun) {
		t.Errorf("an open run gave %v", err)
	}
	if _, err := New(facts(), ledger.Verification{}); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("an unknown run gave %v", err)
	}
	closed := ledger.Verification{Head: sha, Runs: map[string]ledger.RunTotal{
		run: {Closed: true, Budget: privacy.Budget{Epsilon: 1, Delta: 1e-5}, Facts: *runFacts()}},
		Unit: partition.UnitRecord, Neighbouring: scope}
	f := facts()
	f.Manifest = ""
	if _, err := New(f, closed); !errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), "manifest") {
		t.Errorf("a missing manifest gave %v", err)
	}
	if c, err := New(facts(), closed); err != nil || c.EpsilonSpent != 0 || len(c.Mechanisms) != 0 {
		t.Errorf("a run that released nothing gave %+v, %v", c, err)
	}
}

func TestCertificateRoundTrip(t *testing.T) {
	_, c, _ := example(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "certificate.json")
	for _, votes := range []string{"", VotesCoin} {
		c.Votes = votes
		testkit.Must(t, c.WriteFile(path))
		got, err := Read(path)
		testkit.Must(t, err)
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("votes %q (-written +read):\n%s", votes, diff)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files left: %v, %v", files, err)
	}
	c.Mechanisms, c.EpsilonSpent = nil, 0
	testkit.Must(t, c.WriteFile(path))
	if raw, _ := os.ReadFile(path); !strings.Contains(string(raw), `"mechanisms": []`) {
		t.Errorf("no mechanisms are not written as an empty list:\n%s", raw)
	}
	if err := c.WriteFile(filepath.Join(dir, "missing", "c.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder gave %v", err)
	}
	if _, err := Read(filepath.Join(dir, "nothing.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gave %v", err)
	}
}

func TestWriteFileKeepsTheOldOneOnFailure(t *testing.T) {
	_, c, _ := example(t)
	path := filepath.Join(t.TempDir(), "certificate.json")
	testkit.Must(t, c.WriteFile(path))
	testkit.Must(t, os.Chmod(path, 0o666))
	testkit.Must(t, c.WriteFile(path))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("in the place of a file that all may write to it has mode %v (%v)", info.Mode(), err)
	}
	before, _ := os.ReadFile(path)
	c.EpsilonSpent = 2
	if err := c.WriteFile(path); !errors.Is(err, ErrOverspent) {
		t.Errorf("an overspent certificate gave %v", err)
	}
	if after, _ := os.ReadFile(path); !slices.Equal(before, after) {
		t.Error("the file changed")
	}
}

func TestParseRefuses(t *testing.T) {
	good := validText(t)
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the certificate holds no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, c := range []struct{ name, text, says string }{
		{"empty", "", "EOF"},
		{"not json", "epsilon: 1", "invalid character"},
		{"cut off", good[:len(good)/2], "unexpected EOF"},
		{"unknown field", swap(`"run"`, `"comment": "x", "run"`), "unknown field"},
		{"data after it", good + "{}", "after its end"},
		{"run missing", swap(`"run": "flchain-eps1"`, `"run": ""`), "run is missing"},
		{"short hash", swap(`"schema_sha256": "abab`, `"schema_sha256": "ab`), "schema_sha256"},
		{"a pipeline that is no name", swap(`"pategan"`, `"al chemy"`), "pipeline is"},
		{"guarantee", swap(`"data-independent"`, `"best effort"`), "guarantee"},
		{"epsilon zero", swap(`"epsilon": 1,`, `"epsilon": 0,`), "epsilon is 0"},
		{"epsilon text", swap(`"epsilon": 1,`, `"epsilon": "1",`), "cannot unmarshal"},
		{"delta one", swap(`"delta": 0.00001`, `"delta": 1`), "delta is 1"},
		{"negative rows", swap(`"rows": 6000`, `"rows": -1`), "-1 rows"},
		{"no rows", swap(`"rows": 6000`, `"rows": 0`), "0 rows"},
		{"no teachers", swap(`"teachers": 200`, `"teachers": 0`), "0 teachers"},
		{"teachers missing", swap(",\n  \"teachers\": 200", ""), "0 teachers"},
		{"no parameters", swap(`"parameters": {
        "sigma": 3
      }`, `"parameters": null`), "parameters"},
		{"mechanisms null", strings.Replace(strings.Split(good, `"mechanisms"`)[0]+`"mechanisms": null,
  "ledger_head"`+strings.SplitN(good, `"ledger_head"`, 2)[1], "0.9", "0", 1), "line 12 "},
		{"a key twice", swap(`"epsilon": 1,`, `"epsilon": 0.95,
  "epsilon": 1,`), "line 5 "},
		{"a key twice with other capitals", swap(`"epsilon": 1,`, `"epsilon": 0.95,
  "EPSILON": 1,`), "line 5 "},
		{"a key in capitals", swap(`"rows"`, `"Rows"`), "line 23 "},
		{"a parameter twice", swap(`"sigma": 3`, `"sigma": 300,
        "sigma": 3`), "line 16 "},
		{"another order", swap(`"run": "flchain-eps1",
  "schema_sha256": "`+strings.Repeat("ab", 32)+`"`, `"schema_sha256": "`+strings.Repeat("ab", 32)+`",
  "run": "flchain-eps1"`), "line 2 "},
		{"one line", strings.ReplaceAll(good, "\n", ""), "line 1 "},
		{"no end of line", strings.TrimSuffix(good, "\n"), "line 30 "},
		{"another spelling of a number", swap(`"rows": 6000`, `"rows": 6e3`), "rows"},
		{"another spelling of epsilon", swap(`"epsilon": 1,`, `"epsilon": 1.0,`), "line 5 "},
		{"empty votes", swap(`"teachers": 200`, `"teachers": 200,
  "votes": ""`), "line 29 "},
		{"no note", strings.Split(good, ",\n  \"note\"")[0] + "\n}\n", "line 28 "},
		{"another note", swap("computed after the run", "guaranteed beforehand"), "line 29 "},
		{"created", swap(`"created": "2026`, `"created": "around 2026`), "created"},
		{"count zero", swap(`"count": 1`, `"count": 0`), "count 0"},
		{"votes", swap(`"teachers": 200`, `"votes": "dice"`), "votes"},
		{"spent more", swap(`"epsilon": 1,`, `"epsilon": 0.5,`), "spending exceeds"},
		{"huge", good + strings.Repeat(" ", maxBytes), "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if !errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want an error saying %q", err, c.says)
			}
		})
	}
}

func validText(t testing.TB) string {
	c := Certificate{Run: run, SchemaSHA256: strings.Repeat("ab", 32), Pipeline: "pategan",
		Privacy: Privacy{Epsilon: 1, Delta: 1e-5, EpsilonSpent: 0.9, Guarantee: DataIndependent, Neighbouring: scope,
			Unit: "record", Accountant: "gdp",
			Mechanisms: []Mechanism{{Kind: privacy.GNMax, Parameters: map[string]float64{"sigma": 3}, Count: 1}}},
		LedgerHead: sha, ManifestSHA256: sha, Rows: 6000, Created: "2026-03-01", Software: "conclave 0.1.0",
		Asked: Asked{Student: "ada", Teachers: 200}}
	path := filepath.Join(t.TempDir(), "c.json")
	testkit.Must(t, c.WriteFile(path))
	raw := testkit.Read(t, path)
	return strings.Replace(string(raw), "1e-05", "0.00001", 1)
}

// An accepted certificate must be valid, and writing it must give the same text.
func FuzzParse(f *testing.F) {
	f.Add([]byte(validText(f)))
	f.Add([]byte(`{"run":"a","epsilon":1e400}`))
	f.Add([]byte(`{"mechanisms":[{"parameters":null}]}`))
	path := filepath.Join(f.TempDir(), "c.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse(raw)
		if err != nil {
			return
		}
		if err := c.WriteFile(path); err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		if _, err := Read(path); err != nil {
			t.Fatalf("written but not read: %v", err)
		}
	})
}
