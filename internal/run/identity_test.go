package run

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Everything that changes what a student would ask or learn changes its identity, so that it does not continue from
// another run's checkpoint. Nothing else changes it.
func TestIdentityNamesAllThatACheckpointDependsOn(t *testing.T) {
	schema := partitiontest.Schema(t, wideText)
	const start = "warm_start: {embed: 0.3}\n"
	features := []string{"embed: {features: {waves: 31}}", "embed: {features: {columns: 0.123}}",
		"embed: {features: {scales: [0.7]}}", "embed: {fit: {steps: 123}}", "embed: {fit: {batch: 123}}"}
	for _, c := range []struct {
		base        string
		other, same []string
	}{
		{votes, []string{
			"name: r2", "seed: 2", "teachers: 999", "pipeline: gpate", "pategan: {queries: 65}",
			"pategan: {student: {generator_rate: 0.0123}}", "pategan: {student: {generator_steps: 123}}",
			"pategan: {teacher: {batch: 123}}", "pategan: {votes: plain}", start,
		}, []string{
			"release: {rows: 7}", "evaluate: {test: other.csv}", "gpate: {records: 7}",
			"embed: {features: {waves: 77}}",
		}},
		{gradients, []string{
			"pipeline: pategan", "gpate: {records: 13}", "gpate: {answers: winner}", "gpate: {clip: 0.0123}",
			"gpate: {student: {step: 0.12345}}", "gpate: {teacher: {batch: 123}}", start,
		}, []string{"pategan: {queries: 65}", "embed: {features: {waves: 77}}"}},
		{steps, []string{
			"pipeline: gpate", "dpgan: {steps: 31}", "dpgan: {rate: 0.11}", "dpgan: {clip: 3}", "dpgan: {noise: 30}",
			"dpgan: {class_epsilon: 0.0500001}", "dpgan: {discriminator: {loss: kl-wgan}}",
			"dpgan: {discriminator: {fourier: 10}}", "dpgan: {discriminator: {memory: 0.5}}",
			"dpgan: {discriminator: {generated: 100}}", "dpgan: {student: {every: 7}}",
			"dpgan: {student: {step_size: 0.0123}}", "dpgan: {student: {keep: 3}}", start,
		}, []string{
			"dpgan: {rate: 0, batch: 20, units: 200}", "gpate: {records: 7}", "release: {rows: 7}",
			"embed: {features: {waves: 77}}",
		}},
		{embedding, append(features, "embed: {noise: 9}"), nil},
		{votes, append(features, "warm_start: {embed: 0.31}"), nil},
		{gradients, append(features, "warm_start: {embed: 0.31}"), nil},
		{steps, append(features, "warm_start: {embed: 0.31}"), nil},
	} {
		base := []string{c.base}
		if c.same == nil && c.base != embedding {
			base = []string{c.base, start}
		}
		of := func(change string, coin bool) string {
			return identity(runOf(t, append(base, change)...), schema, coin)
		}
		want := of("", false)
		if of("", false) != want || of("", true) == want {
			t.Errorf("%q: one run has two identities, or the baseline has that of votes", c.base)
		}
		for _, change := range c.other {
			if of(change, false) == want {
				t.Errorf("%q: %q does not change the identity", c.base, change)
			}
		}
		for _, change := range c.same {
			if of(change, false) != want {
				t.Errorf("%q: %q changes the identity, though no question depends on it", c.base, change)
			}
		}
		chosen := runOf(t, base...)
		chooseAll(chosen, encode.New(schema))
		if identity(chosen, schema, false) != want {
			t.Errorf("%q: what is chosen changes the identity where it is written out", c.base)
		}
	}
}

// chooseAll writes out the defaults that a run leaves open for a label with two classes.
func chooseAll(s *runfile.Spec, e *encode.Encoder) {
	g, d, m := runfile.Section[gpate.Options](s), runfile.Section[dpgan.Options](s), runfile.Section[embed.Options](s)
	*g, *d, *m = g.ChosenFor(e), d.ChosenFor(e), m.ChosenFor(e, 2, 0)
}
