package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const teacherYAML = `aggregator: 127.0.0.1:1
dataset: d
site: north
schema: schema.yaml
data: data.csv
teachers: 4
policy: policy.yaml
tls: {ca: ca.crt, cert: north.crt, key: north.key}
`

// People who approve a masked run see its members, with their keys as they are read out, and the worst case.
func TestWhoApprovesAMaskedRunSeesItsMembers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "teacher.yaml")
	for name, text := range map[string]string{
		"teacher.yaml": teacherYAML,
		"schema.yaml":  "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n",
		"policy.yaml":  "datasets:\n  - {name: d, epsilon: 3, delta: 1e-5, pipelines: [embed]}\n",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	enforcer, config, err := enforcerOf(file, false)
	testkit.Must(t, err)
	testkit.Must(t, os.MkdirAll(config.State, 0o700))
	hash := func(of string) masking.Fingerprint { return sha256.Sum256([]byte(of)) }
	event := privacy.Event{Kind: privacy.Gaussian, Sigma: 20, Sensitivity: 1}
	err = enforcer.Ask(sitepolicy.Request{
		Run: "asked", SpecSHA256: hash("spec").Hex(), Question: hash("question").Hex(), Kind: sitepolicy.EmbeddingSum,
		Spec: sitepolicy.Spec{
			Dataset: "d", SchemaSHA256: schemaHash(t, config.Schema), Unit: config.Unit,
			Pipeline: "embed", Epsilon: 1, Delta: 1e-5, Guarantee: "data-independent", Teachers: 8,
			Plan: privacy.Plan{{Kind: string(sitepolicy.EmbeddingSum), Mechanism: event, Count: 1}},
			Masked: &masking.Group{Quorum: 2, Colluding: 1, Members: []masking.Member{
				{Site: "north", Key: hash("north")}, {Site: "south", Key: hash("south")}}},
		},
		Use: privacy.Use{Queries: 1, Answered: 1}, Charges: []privacy.Event{event.Times(1)},
	})
	if err == nil || !strings.Contains(err.Error(), "waits for approval") {
		t.Fatalf("error %v", err)
	}
	status, err := enforcer.Status()
	testkit.Must(t, err)
	most := mostText(status.Runs[0])
	if most == "-" || status.Runs[0].RevealsAtMost != 4 {
		t.Fatalf("the run is shown as %+v", status.Runs[0])
	}
	for _, args := range [][]string{{"runs"}, {"approve", "asked"}} {
		said := output(t, append(args, "--config", file)...)
		for _, want := range []string{
			"asked is masked: a sum of 2 of 2 sites or more is opened, and is private where 1 of them, at most",
			"the answer to a round may be opened 4 times, and each is charged: epsilon " + most + " at most",
			"  north  " + certs.SpellFingerprint(hash("north").Hex()),
			"  south  " + certs.SpellFingerprint(hash("south").Hex()),
		} {
			if !strings.Contains(said, want+"\n") && !strings.Contains(said, want+", hand the aggregator") {
				t.Errorf("teacher %v says %q, want %q", args, said, want)
			}
		}
	}
}

func schemaHash(t *testing.T, path string) string {
	t.Helper()
	return masking.Fingerprint(sha256.Sum256(testkit.Read(t, path))).Hex()
}

// output is what the program says.
func output(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdout")
	f, err := os.Create(path)
	testkit.Must(t, err)
	was := os.Stdout
	os.Stdout = f
	defer func() { os.Stdout = was }()
	c := command()
	c.SetArgs(args)
	testkit.Must(t, c.ExecuteContext(t.Context()))
	testkit.Must(t, f.Close())
	return string(testkit.Read(t, path))
}
