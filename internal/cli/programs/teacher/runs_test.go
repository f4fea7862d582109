package teacher

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/study"
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

// atSite makes the files of a node's site, and returns its configuration's path and its enforcer.
func atSite(t *testing.T, teacher, policy string) (string, *sitepolicy.Enforcer, node.Config) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "teacher.yaml")
	for name, text := range map[string]string{
		"teacher.yaml": teacher,
		"schema.yaml":  "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n",
		"policy.yaml":  policy,
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	enforcer, config, err := review.Open(file, false)
	testkit.Must(t, err)
	testkit.Must(t, os.MkdirAll(config.State, 0o700))
	return file, enforcer, config
}

func hash(of string) masking.Fingerprint { return sha256.Sum256([]byte(of)) }

// asks is a round of a run that asks for one sum.
func asks(t *testing.T, c node.Config, masked *masking.Group) sitepolicy.Request {
	event := privacy.Event{Kind: privacy.Gaussian, Sigma: 20, Sensitivity: 1}
	return sitepolicy.Request{
		Run: "asked", Requester: "lab", SpecSHA256: hash("spec").Hex(), Question: hash("question").Hex(),
		Kind: sitepolicy.EmbeddingSum,
		Spec: sitepolicy.Spec{
			Dataset: "d", SchemaSHA256: schemaHash(t, c.Schema), Unit: c.Unit,
			Pipeline: "embed", Epsilon: 1, Delta: 1e-5, Guarantee: "data-independent", Teachers: 8, Purpose: "study 12",
			Study: &study.Block{Name: "heart", Title: "Heart failure", Purpose: "Teaching", Permit: "IRB 7",
				Contact: "Dr. Berg", Expires: "2199-06-30", SHA256: hash("study").Hex()},
			Plan:   privacy.Plan{{Kind: string(sitepolicy.EmbeddingSum), Mechanism: event, Count: 1}},
			Masked: masked,
		},
		Use: privacy.Use{Queries: 1, Answered: 1}, Charges: []privacy.Event{event.Times(1)},
	}
}

// Two persons with their own keys approve a run, and each reads about it first; the audit log names them.
func TestTwoPersonsApproveWithTheirKeys(t *testing.T) {
	dir := certstest.New(t)
	var approvers []string
	for _, name := range []string{"ann", "ben"} {
		testkit.Must(t, authority.Issue(dir, certs.RoleApprover, name, nil, time.Hour))
		pair, err := pemfile.LoadPair(certs.IssuedFiles(dir, certs.RoleApprover, name).Cert,
			certs.IssuedFiles(dir, certs.RoleApprover, name).Key)
		testkit.Must(t, err)
		key, err := certs.Fingerprint(pair.Leaf.PublicKey)
		testkit.Must(t, err)
		approvers = append(approvers, fmt.Sprintf("{name: Dr. %s, key: %s}", name, certs.SpellFingerprint(key)))
	}
	ca, _ := certs.AuthorityFiles(dir)
	file, enforcer, config := atSite(t, strings.Replace(teacherYAML, "ca: ca.crt", "ca: "+ca,
		1)+"audit_log: audit.jsonl\n",
		"datasets:\n  - {name: d, epsilon: 3, delta: 1e-5, pipelines: [embed], approval_expires: 30d, "+
			"approvals_needed: 2,\n"+
			"     approvers: ["+strings.Join(approvers, ", ")+"]}\n")
	if err := enforcer.Ask(asks(t, config, nil)); err == nil || !strings.Contains(err.Error(), "0 of 2 approvals") {
		t.Fatalf("error %v", err)
	}
	says := func(want []string, args ...string) {
		t.Helper()
		said := output(t, append(args, "--config", file)...)
		for _, want := range want {
			if !strings.Contains(said, want) {
				t.Errorf("teacher %v says %q, want %q", args, said, want)
			}
		}
	}
	signed := func(name string) []string {
		f := certs.IssuedFiles(dir, certs.RoleApprover, name)
		return []string{"approve", "asked", "--as", f.Cert, "--key", f.Key}
	}
	says([]string{"asked  " + hash("spec").Hex()[:12] + "  waiting (0 of 2)  lab  "}, "runs")
	says([]string{
		"at node north/0 is waiting (0 of 2)\napprovals: 0 of 2\n", "requester: lab, according to the aggregator\n",
		"protected unit: one record at one site\n",
		"purpose: study 12 (stated by the student; not checked)\n", "  1 x embedding: gaussian sigma 20\n",
		"noise: standard deviation 20 x the maximum contribution of one record; fewer than 40 cannot be detected in " +
			"one release (2 x 20)\n",
		"seen before noise is added by: only the aggregator",
		"  the site's limit is epsilon 3: room for a run of 3 now, and of ",
		"guessing right whether the data contains one record", "  pipelines  met  allowed: embed\n",
	}, "runs", "asked")
	says([]string{
		"study: Heart failure (heart), ends on 2199-06-30 (UTC)\n  its purpose: Teaching\n" +
			"  data permit: IRB 7\n  contact: Dr. Berg\n" +
			"  SHA-256 of its protocol, study.yaml: " + hash("study").Hex() + "\n",
		"  study      met  allowed: runs of any current study, and runs without a study\n", "(nfilter.tab of " +
			"DataSHIELD",
	}, "runs", "asked")
	says([]string{"study 12  study heart (" + hash("study").Hex()[:12] + ")\n"}, "runs")
	says([]string{"is waiting (1 of 2)\n", "  approve by Dr. ann at "}, signed("ann")...)
	says([]string{"is waiting (1 of 2)\n", "which does not count: a later decision replaced it\n"}, signed("ann")...)
	says([]string{"is approved by Dr. ann, Dr. ben until "}, signed("ben")...)
	testkit.Must(t, enforcer.Ask(asks(t, config, nil)))
	says([]string{`"hidden_once":40`, `"rule":"pipelines","met":true`, `"approvals":2,"approvals_needed":2`,
		`"strength":"strong"`, `"epsilon_left_after":`}, "runs", "asked", "--format", "json")
	says([]string{"is denied by "}, "deny", "asked")
	says([]string{"in advance, lab-2027 (spec ", "is waiting (1 of 2): runs of lab, pipelines embed, purpose -, " +
		"together at most epsilon 0.5; the cost so far, of 0 answers: 0\n"},
		"approve", "lab-2027", "--student", "lab", "--pipelines",
		"embed", "--epsilon", "0.5",
		"--as", signed("ann")[3], "--key", signed("ann")[5])
	says([]string{"in advance, lab-2027 (spec "}, "runs")
	var events []string
	for line := range strings.Lines(string(testkit.Read(t, config.AuditLog))) {
		var e auditlog.Entry
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		events = append(events, fmt.Sprintf("%s %s %s", e.Event, e.Run, strings.Split(e.Reason, "@")[0]))
		if e.Run == "asked" && (e.Study == nil || e.Study.Permit != "IRB 7" || e.Study.SHA256 != hash("study").Hex()) {
			t.Errorf("a line of the audit log has the study %+v", e.Study)
		}
	}
	want := []string{"approval asked by Dr. ann", "approval asked by Dr. ann", "approval asked by Dr. ben",
		"denial asked " + events[3][len("denial asked "):], "approval lab-2027 by Dr. ann"}
	if !slices.Equal(events, want) {
		t.Errorf("the audit log has %q, want %q", events, want)
	}
}

// People who approve a masked run see its members, with their keys for reading aloud, and the worst case.
func TestWhoApprovesAMaskedRunSeesItsMembers(t *testing.T) {
	file, enforcer, config := atSite(t, teacherYAML,
		"datasets:\n  - {name: d, epsilon: 3, delta: 1e-5, pipelines: [embed]}\n")
	err := enforcer.Ask(asks(t, config, &masking.Group{Quorum: 2, Colluding: 1, Members: []masking.Member{
		{Site: "north", Key: hash("north")}, {Site: "south", Key: hash("south")}}}))
	if err == nil || !strings.Contains(err.Error(), "waits for approval") {
		t.Fatalf("error %v", err)
	}
	status, err := enforcer.Status()
	testkit.Must(t, err)
	most := review.MostText(status.Runs[0])
	if most == "-" || status.Runs[0].RevealsAtMost != 4 {
		t.Fatalf("the run is shown as %+v", status.Runs[0])
	}
	for _, args := range [][]string{{"runs", "asked"}, {"approve", "asked"}} {
		said := output(t, append(args, "--config", file)...)
		for _, want := range []string{
			"asked is masked: sums need at least 2 of 2 sites, and stay private while the number of them " +
				"that collude with the aggregator is at most 1",
			"the answer to a round may be opened 4 times, and each opening is charged: at most epsilon " + most,
			"  north  " + certs.SpellFingerprint(hash("north").Hex()),
			"  south  " + certs.SpellFingerprint(hash("south").Hex()),
		} {
			if !strings.Contains(said, want+"\n") {
				t.Errorf("teacher %v says %q, want %q", args, said, want)
			}
		}
	}
}

func schemaHash(t *testing.T, path string) string {
	t.Helper()
	return masking.Fingerprint(sha256.Sum256(testkit.Read(t, path))).Hex()
}

// output is the output of the program.
func output(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := clitest.Call(Command(), clitest.At{}, args...)
	if code != 0 {
		t.Fatalf("teacher %v: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

// A person who denied or approved a run did not end it.
func TestStateText(t *testing.T) {
	by := func(state string, d sitepolicy.Decisions) sitepolicy.Run {
		d.By = "ann"
		return sitepolicy.Run{State: state, Decisions: d}
	}
	said := func(denied, approved bool) sitepolicy.Decisions {
		return sitepolicy.Decisions{Said: []sitepolicy.Said{{Decision: sitepolicy.EntryDeny, Counts: denied},
			{Decision: sitepolicy.EntryApprove, Counts: approved}}}
	}
	const until = "2030-01-01T00:00:00Z"
	for want, r := range map[string]sitepolicy.Run{
		"ended":                    {State: sitepolicy.StateEnded},
		"ended, denied by ann":     by(sitepolicy.StateEnded, said(true, false)),
		"ended, approved by ann":   by(sitepolicy.StateEnded, said(false, true)),
		"refused, approved by ann": by(sitepolicy.StateRefused, said(false, true)),
		"denied by ann":            by(sitepolicy.StateDenied, said(true, false)),
		"waiting (1 of 2)": by(sitepolicy.StateWaiting,
			sitepolicy.Decisions{Approvals: 1, ApprovalsNeeded: 2}),
		"approved by ann until " + until: by(sitepolicy.StateApproved, sitepolicy.Decisions{Until: until}),
	} {
		if got := review.StateText(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
