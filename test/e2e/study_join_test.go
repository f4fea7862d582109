package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var (
	readOut = regexp.MustCompile(`(?s)read out the fingerprint of this site's key:\n  ([0-9a-f ]+)\n`)
	ofAll   = regexp.MustCompile(`(?:must see too|fingerprint to every site):\n  ([0-9a-f ]+)\n`)
)

// found waits until a command has printed a match of a pattern, and returns its group.
func (s *typing) found(t *testing.T, pattern *regexp.Regexp) (group string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%q to print %v", s.line, pattern), func() bool {
		if m := pattern.FindStringSubmatch(s.text()); m != nil {
			group = m[1]
		}
		return group != ""
	})
	return group
}

// fails waits until a command has ended with exit code 1 and a reason.
func (p *places) fails(s *typing, reason string) {
	p.t.Helper()
	if code := p.code(s); code != 1 || !strings.Contains(s.text(), reason) {
		p.t.Errorf("%s ended with %d, want 1 and %q:\n%s", s.line, code, reason, s.text())
	}
}

// A killed join continues with its key. The fingerprint exposes a thief of a kit, who can only delay the site. All
// sites must see the same roster.
func TestASiteJoinsWhateverHappens(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, "cj", "operator", "north", "south", "thief")
	_, port, _ := strings.Cut(testkit.FreeAddress(t, "127.0.0.1"), ":")
	study := fmt.Sprintf(`{name: s, title: t, purpose: p, permit: "1", contact: c, expires: 2036-06-30,
dataset: flchain, schema: schema.yaml, budget: {epsilon: 1, delta: 1e-6}, pipelines: [embed], sites: [north, south],
students: [lab], aggregator: {hosts: ["%s"], port: %s}}
`, p.host, port)
	testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "operator", "study.yaml"), []byte(study), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "operator", "schema.yaml"), testkit.Read(t, built.schema), 0o600))
	for place, data := range map[string]string{"north": built.north, "south": built.south, "thief": built.north} {
		raw := testkit.Read(t, data)
		testkit.Must(t, os.WriteFile(filepath.Join(p.dir, place, filepath.Base(data)), raw, 0o600))
	}
	join := "teacher join north.zip --data " + filepath.Base(built.north)
	if code := p.code(p.start("operator", "conclave study make study.yaml --out study")); code != 0 {
		t.Fatalf("study make ended with %d", code)
	}
	p.hand("operator/study/kits/north.zip", "north/north.zip")
	p.hand("operator/study/kits/north.zip", "thief/north.zip")
	p.hand("operator/study/kits/south.zip", "south/south.zip")
	p.start("operator", "aggregator --config study/aggregator/aggregator.yaml")

	// A wrong file is noticed before anybody is asked to compare fingerprints.
	testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "north", "other.csv"), []byte("a,b\n1,2\n"), 0o600))
	other := p.start("north", strings.Replace(join, filepath.Base(built.north), "other.csv", 1))
	p.fails(other, "--data: ")
	if strings.Contains(other.text(), "by telephone") {
		t.Errorf("people are asked to compare fingerprints:\n%s", other.text())
	}

	first := p.start("north", join)
	key := first.found(t, readOut)
	testkit.Must(t, first.c.Process.Kill())
	p.code(first)
	first = p.start("north", join)
	if again := first.found(t, readOut); again != key {
		t.Errorf("after it was killed the key is %s, and was %s", again, key)
	}
	// Two joins in one folder use one key.
	if same := p.start("north", join).found(t, readOut); same != key {
		t.Errorf("a second join in the folder has the key %s", same)
	}

	thief := p.start("thief", join)
	stolen := thief.found(t, readOut)
	if !strings.Contains(thief.text(), "a request, with the key "+key+"; if nobody here made it") {
		t.Errorf("the second join does not tell of the first:\n%s", thief.text())
	}
	p.fails(first, "a request with the key "+stolen+" replaced this one")
	south := p.start("south", "teacher join south.zip --data "+filepath.Base(built.south))
	confirm := func(site, key string) string {
		return " --confirm " + site + "=" + strings.ReplaceAll(key, " ", "")[:certs.LeastFingerprint]
	}
	admit := "conclave study admit --config study/operator/operator.yaml --format json"
	all := admit + confirm("north", key) + confirm("south", south.found(t, readOut))
	p.fails(p.start("operator", all), "site north is not admitted: the fingerprint is "+stolen)
	p.fails(p.start("operator", strings.Replace(all, "north=", "north=ff", 1)), "do not continue")
	p.fails(p.start("operator", admit+" --confirm north=ff00"), "is not a fingerprint; give at least the first 32")
	p.fails(p.start("operator", admit+confirm("east", key)), "the study has no such site; its sites are north, south")

	first = p.start("north", join+" --confirm-roster "+strings.Repeat("0", 40))
	first.found(t, readOut)
	p.fails(thief, "replaced this one")
	admitted := p.start("operator", all)
	if code := p.code(admitted); code != 0 {
		t.Fatalf("admit ended with %d:\n%s", code, admitted.text())
	}
	p.fails(first, "--confirm-roster: the fingerprint is ")
	roster := first.found(t, ofAll)
	if code := p.code(south); code != 0 || south.found(t, ofAll) != roster {
		t.Errorf("south ended with %d, and saw %s where north saw %s", code, south.found(t, ofAll), roster)
	}
	if !strings.Contains(admitted.text(), `"fingerprint":"`+strings.ReplaceAll(roster, " ", "")+`"`) {
		t.Errorf("the operator saw another roster than %s:\n%s", roster, admitted.text())
	}
	p.fails(p.start("thief", join), "was admitted with another key")
	for _, how := range []string{" --confirm-roster " + strings.ReplaceAll(roster, " ", ""), ""} { // then it has joined
		done := p.start("north", join+how)
		if code := p.code(done); code != 0 || !strings.Contains(done.text(), "north has joined study s") {
			t.Errorf("%s ended with %d:\n%s", done.line, code, done.text())
		}
	}
	said := admitted.text()
	again := p.start("operator", admit)
	if code := p.code(again); code != 0 || again.text() != said[strings.Index(said, `{"fingerprint"`):] {
		t.Errorf("admitted again it says:\n%s", again.text())
	}
	newer := filepath.Join(p.dir, "operator", "study", "operator", "roster-2.json")
	testkit.Must(t, os.WriteFile(newer, nil, 0o600))
	p.fails(p.start("operator", admit), "the aggregator shows an older roster or none")
	// A kit is revoked by its certificate.
	revoke := p.start("operator", "conclave site revoke --dir study/authority --role joiner north")
	if code := p.code(revoke); code != 0 {
		t.Errorf("%s ended with %d", revoke.line, code)
	}
	p.hand("operator/study/authority/revoked.crl", "operator/study/aggregator/revoked.crl")
	p.fails(p.start("thief", join), "it was revoked")
}

// A study may begin before a site has joined. When the site joins, the others see the next roster, and their policies
// do not change.
func TestAStudyGrows(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, "cg", "operator", "north", "south")
	_, port, _ := strings.Cut(testkit.FreeAddress(t, "127.0.0.1"), ":")
	study := fmt.Sprintf(`{name: s, title: t, purpose: p, permit: "1", contact: c, expires: 2036-06-30, masked: true,
overlap: 2,
dataset: flchain, schema: schema.yaml, budget: {epsilon: 1, delta: 1e-6}, pipelines: [embed], sites: [north, south],
students: [lab], aggregator: {hosts: ["%s"], port: %s}}
`, p.host, port)
	testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "operator", "study.yaml"), []byte(study), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "operator", "schema.yaml"), testkit.Read(t, built.schema), 0o600))
	joins := map[string]string{"north": built.north, "south": built.south}
	if code := p.code(p.start("operator", "conclave study make study.yaml --out study")); code != 0 {
		t.Fatalf("study make ended with %d", code)
	}
	for site, data := range joins {
		p.hand("operator/study/kits/"+site+".zip", site+"/kit.zip")
		raw := testkit.Read(t, data)
		testkit.Must(t, os.WriteFile(filepath.Join(p.dir, site, filepath.Base(data)), raw, 0o600))
		joins[site] = "teacher join kit.zip --data " + filepath.Base(data)
	}
	p.start("operator", "aggregator --config study/aggregator/aggregator.yaml")
	admit := "conclave study admit --config study/operator/operator.yaml"
	p.fails(p.start("operator", admit+" --partial"), "no site has asked for admission")
	north := p.start("north", joins["north"])
	north.found(t, readOut)
	ended := func(s *typing, says ...string) {
		t.Helper()
		code := p.code(s)
		for _, want := range says {
			if code != 0 || !strings.Contains(s.text(), want) {
				t.Fatalf("%s ended with %d, want 0 and %q:\n%s", s.line, code, want, s.text())
			}
		}
	}
	ended(p.start("operator", admit+" --partial"), "roster of generation 1, with 1 of 2 sites",
		"run.yaml files are written after all sites are admitted")
	ended(north, "north has joined study s")
	policy := filepath.Join(p.dir, "north", "north", "policy.yaml")
	was := string(testkit.Read(t, policy))

	south := p.start("south", joins["south"])
	key := south.found(t, readOut)
	ended(p.start("operator", admit), "roster of generation 2, with 2 of 2 sites")
	ended(south, "south has joined study s")
	ended(p.start("north", joins["north"]), "roster of generation 2, with 2 of 2 sites",
		`{site: "south", key: "`+strings.ReplaceAll(key, " ", "")+`"}`)
	if got := string(testkit.Read(t, policy)); got != was {
		t.Errorf("the policy was changed to\n%s", got)
	}
	node := string(testkit.Read(t, filepath.Join(p.dir, "north", "north", "teacher.yaml")))
	run := string(testkit.Read(t, filepath.Join(p.dir, "operator", "study", "students", "lab", "run.yaml")))
	if !strings.Contains(node, "\noverlap: 2\n") || !strings.Contains(run, "overlap: 2}") {
		t.Errorf("the overlap is not in\n%s\n%s", node, run)
	}
	if strings.Count(run, "site: ") != 2 {
		t.Errorf("the first run is\n%s", run)
	}
}
