package sitepolicy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Each file of testdata breaks one rule; its first line has the expected message.
func TestBadPoliciesNameTheFieldAndTheFix(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	testkit.Must(t, err)
	if len(files) < 20 {
		t.Fatalf("%d files", len(files))
	}
	for _, path := range files {
		raw := testkit.Read(t, path)
		first, _, _ := strings.Cut(string(raw), "\n")
		want := strings.TrimPrefix(first, "# ")
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: error %v, want one about %q", path, err, want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); err == nil ||
		!strings.Contains(err.Error(), "give a readable file") {
		t.Errorf("a missing file: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	testkit.Must(t, os.WriteFile(large, make([]byte, maxPolicy+1), 0o600))
	if _, err := Read(large); err == nil || !strings.Contains(err.Error(), "this is not a policy") {
		t.Errorf("a large file: %v", err)
	}
}

func TestEveryProblemOfAPolicyIsNamed(t *testing.T) {
	_, err := Parse([]byte("datasets: [{name: D, epsilon: -1, delta: 2, filter: pld, approval: maybe}]"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"name", "epsilon", "delta", "filter", "pipelines", "approval"} {
		if !strings.Contains(err.Error(), "datasets[0]."+field+": ") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

// Ends are days or moments, terms are days or durations.
func TestEndsOfApprovals(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "36h": 36 * time.Hour, "1s": time.Second,
		"": 0, "d": 0, "0d": 0, "-1d": 0, "1.5d": 0, "9999999999999999999d": 0, "400000h": 0, "10ms": 0} {
		if got, err := ParseTerm(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"2027-01-31": "2027-02-01T00:00:00Z",
		"2027-01-31T18:00:00+01:00": "2027-01-31T17:00:00Z", "": "", "31.1.2027": "", "2027-02-30": ""} {
		if at, err := ParseUntil(text); formatMoment(at) != want || (err == nil) != (want != "") {
			t.Errorf("%q is %v, %v", text, at, err)
		}
	}
}

func TestDefaultsAreTheStrictOnes(t *testing.T) {
	p, err := Parse([]byte("datasets: [{name: d, epsilon: 1, delta: 1e-6, pipelines: [embed]}]"))
	testkit.Must(t, err)
	want := Dataset{Name: "d", Epsilon: 1, Delta: 1e-6, Filter: "gdp", Pipelines: []string{"embed"}, Approval: ByHand}
	if !reflect.DeepEqual(*p.Dataset("d"), want) {
		t.Errorf("%+v, want %+v", *p.Dataset("d"), want)
	}
	p, err = Parse([]byte("datasets: [{name: d, epsilon: 1, delta: 1e-6, pipelines: [embed], approvers: [{name: A, " +
		"key: " +
		strings.Repeat("ab ", 32) + "}]}]"))
	testkit.Must(t, err)
	if d := p.Dataset("d"); d.ApprovalsNeeded != 1 {
		t.Errorf("%d approvals are needed", d.ApprovalsNeeded)
	}
	if p.Dataset("e") != nil {
		t.Error("another dataset is allowed something")
	}
}

// Whatever parses as a policy is valid: its limits are positive numbers, and everything that it allows has a name.
func FuzzParse(f *testing.F) {
	f.Add([]byte(allowing))
	files, err := filepath.Glob("testdata/bad/*.yaml")
	testkit.Must(f, err)
	for _, path := range files {
		raw := testkit.Read(f, path)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if err != nil {
			if p != nil {
				t.Fatal("a policy and an error")
			}
			return
		}
		for _, d := range p.Datasets {
			if !(d.Epsilon > 0) || !(d.Delta > 0 && d.Delta < 1) || len(d.Pipelines) == 0 || d.MinRows < 0 ||
				d.MinRowsPerTeacher < 0 {
				t.Fatalf("%+v", d)
			}
			if d.Approval != ByHand && d.Approval != Automatic {
				t.Fatalf("approval %q", d.Approval)
			}
			testkit.Must(t, d.Limit().Validate())
		}
	})
}
