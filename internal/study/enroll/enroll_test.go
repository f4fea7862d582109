package enroll

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/study/kit"
	"github.com/conclave-dp/conclave/internal/study/provision"
	"github.com/conclave-dp/conclave/internal/study/roster"
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
pipelines: [marginals]
masked: true
aggregator: {hosts: [agg.example.org]}
sites: [north, south, west]
students: [lab]
`

// begun is the folder of a study, and its site north, which has made its key.
func begun(t *testing.T) (folder string, north *Site) {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(text), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "schema.yaml"), []byte("name: heart\n"), 0o600))
	folder = filepath.Join(dir, "study")
	_, kits, err := provision.Make(filepath.Join(dir, "study.yaml"), folder)
	testkit.Must(t, err)
	k, _, err := kit.Read(kits[0].Path)
	testkit.Must(t, err)
	return folder, again(t, k, filepath.Join(dir, "north"))
}

func again(t *testing.T, k *kit.Kit, dir string) *Site {
	t.Helper()
	s, err := Begin(k, dir, func(string) {})
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// asking is a request of a site with its own key.
func asking(t *testing.T, name string) *request.Request {
	t.Helper()
	q, err := request.New(t.TempDir(), certs.RoleNode, name, nil, request.FirstKey)
	testkit.Must(t, err)
	return q
}

// signed is a changed roster of requests, signed by the authority of a study's folder.
func signed(
	t *testing.T, folder string, s *Site, change func(*roster.Roster), asking ...*request.Request,
) roster.Signed {
	t.Helper()
	dir := provision.Authority(folder)
	_, fingerprint, err := authority.Own(dir)
	testkit.Must(t, err)
	r := roster.Roster{Study: study.Hash(s.StudyText), Schema: s.SchemaSHA256(), Authority: fingerprint,
		Dataset: "heart", Generation: 1}
	for _, q := range asking {
		issued, err := authority.Approve(dir, q, time.Hour)
		testkit.Must(t, err)
		r.Sites = append(r.Sites, roster.Site{
			Name: q.Identity.Name, Key: q.Fingerprint, Certificate: string(issued.PEM),
		})
	}
	if change != nil {
		change(&r)
	}
	made, err := roster.Sign(dir, r)
	testkit.Must(t, err)
	return made
}

func (s *Site) own(t *testing.T) *request.Request {
	t.Helper()
	q, err := request.Parse(s.request)
	testkit.Must(t, err)
	return q
}

// A command that was stopped continues with the key that it made.
func TestASiteGoesOnWithItsKey(t *testing.T) {
	_, s := begun(t)
	key := filepath.Join(s.Dir, "node-north.key")
	if info := testkit.Value(os.Stat(key)); info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v", info.Mode())
	}
	was := testkit.Read(t, key)
	later := again(t, s.Kit, s.Dir)
	if later.Fingerprint != s.Fingerprint || string(testkit.Read(t, key)) != string(was) {
		t.Error("another key was made")
	}
}

// A site refuses a roster of another study or with another key for it, although the authority signed it.
func TestRostersThatASiteRefuses(t *testing.T) {
	folder, s := begun(t)
	own, south := s.own(t), asking(t, "south")
	good := signed(t, folder, s, nil, own, south)
	if r, err := s.check(good, time.Now()); err != nil || r == nil || r.Site("south") == nil {
		t.Fatalf("a good roster: %v, %v", r, err)
	}
	if r, err := s.check(signed(t, folder, s, nil, south), time.Now()); r != nil || err != nil {
		t.Errorf("a roster without the site: %v, %v", r, err)
	}
	zeros := strings.Repeat("0", 64)
	otherFolder, other := begun(t)
	for name, c := range map[string]struct {
		signed roster.Signed
		is     error
	}{
		"another study":     {signed(t, folder, s, func(r *roster.Roster) { r.Study = zeros }, own), roster.ErrRoster},
		"another schema":    {signed(t, folder, s, func(r *roster.Roster) { r.Schema = zeros }, own), roster.ErrRoster},
		"another dataset":   {signed(t, folder, s, func(r *roster.Roster) { r.Dataset = "x" }, own), roster.ErrRoster},
		"a stranger":        {signed(t, folder, s, nil, own, asking(t, "east")), roster.ErrRoster},
		"another key":       {signed(t, folder, s, nil, asking(t, "north")), ErrOther},
		"another authority": {signed(t, otherFolder, other, nil, own), roster.ErrRoster},
		"cut off":           {roster.Signed{Text: good.Text[:9], Signature: good.Signature}, roster.ErrRoster},
	} {
		if r, err := s.check(c.signed, time.Now()); r != nil || !errors.Is(err, c.is) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// Files written before the command was stopped stay. The policy of a joined site belongs to the site.
func TestAnInterruptedInstallationIsFinished(t *testing.T) {
	folder, s := begun(t)
	r, err := s.check(signed(t, folder, s, nil, s.own(t), asking(t, "south")), time.Now())
	testkit.Must(t, err)
	if s.Confirmed(r) || s.Joined() {
		t.Error("confirmed before it was")
	}
	testkit.Must(t, s.Install(r, "/data/rows.csv"))
	policy := string(testkit.Read(t, s.PolicyFile()))
	for _, want := range []string{"approval: by-hand", "masked: true", "least_colluding: 1",
		`{site: "south", key: "` + r.Keys()["south"]} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s:\n%s", want, policy)
		}
	}
	if strings.Contains(policy, s.Fingerprint) {
		t.Error("the site is its own peer")
	}
	for _, lost := range []string{"teacher.yaml", "policy.yaml", "node-north.crt", "roster-1.sig"} {
		testkit.Must(t, os.Remove(s.NodeFile()))
		if lost != "teacher.yaml" {
			testkit.Must(t, os.Remove(filepath.Join(s.Dir, lost)))
		}
		if !s.Confirmed(r) {
			t.Errorf("without %s: not confirmed", lost)
		}
		testkit.Must(t, s.Install(r, "/data/rows.csv"))
		if !s.Joined() {
			t.Errorf("without %s: not joined", lost)
		}
	}
	if err := s.Install(r, "/data/others.csv"); err == nil || !strings.Contains(err.Error(), "/data/rows.csv, the "+
		"data file") {
		t.Errorf("other data after the site has joined: %v", err)
	}
	testkit.Must(t, os.WriteFile(s.PolicyFile(), []byte("the site's own"), 0o600))
	more, err := s.check(signed(t, folder, s, func(r *roster.Roster) { r.Generation = 2 }, s.own(t), asking(t, "south"),
		asking(t, "west")), time.Now())
	testkit.Must(t, err)
	testkit.Must(t, s.Install(more, "/data/rows.csv"))
	if got := string(testkit.Read(t, s.PolicyFile())); got != "the site's own" || !s.Confirmed(more) {
		t.Errorf("after the second roster the policy is %q", got)
	}
	// An aggregator that shows the first roster again hides a site that was admitted since.
	if r, err := s.check(r.Signed, time.Now()); r != nil || !errors.Is(err, roster.ErrRoster) {
		t.Errorf("an older roster: %v, %v", r, err)
	}
}
