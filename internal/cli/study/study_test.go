package study

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const text = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2036-06-30
dataset: heart
schema: schema.yaml
budget: {epsilon: 2, delta: 1e-6}
pipelines: [marginals, embed]
stages: [quality]
aggregator: {hosts: [agg.example.org]}
sites: [north, south]
students: [lab]
`

func TestPipelinesAndStagesThatNoPolicyAllows(t *testing.T) {
	for _, c := range []struct{ from, to, says string }{
		{"heart", "heart", ""},
		{"embed]", "embeds]", `pipelines: "embeds" is not a pipeline; use `},
		{"[quality]", "[marginals]", `stages: "marginals" is not available; use `},
	} {
		path := filepath.Join(t.TempDir(), "study.yaml")
		testkit.Must(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, c.from, c.to)), 0o600))
		err := known(path)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want one that says %q", c.to, err, c.says)
		}
	}
}
