package site

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/console/consoletest"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/node/review"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// atSite makes the files of a node's site, with a policy line for its dataset.
func atSite(t *testing.T, ca, policy, monitor string) (path string, enforcer *sitepolicy.Enforcer, config node.Config) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "teacher.yaml")
	for name, text := range map[string]string{
		"teacher.yaml": "aggregator: 127.0.0.1:1\ndataset: d\nsite: north\nschema: schema.yaml\n" +
			"data: data.csv\nteachers: 4\npolicy: policy.yaml\naudit_log: audit.jsonl\n" +
			"tls: {ca: " + ca + ", cert: north.crt, key: north.key}\n" +
			"http: {listen: '" + monitor + "'}\n",
		"schema.yaml": "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n",
		"policy.yaml": "datasets:\n  - {name: d, epsilon: 3, delta: 1e-5, pipelines: [embed]" + policy + "}\n",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	enforcer, config, err := review.Open(path, false)
	testkit.Must(t, err)
	testkit.Must(t, os.MkdirAll(config.State, 0o700))
	return path, enforcer, config
}

func hash(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}

// asks is a round of a run that asks for one sum.
func asks(t *testing.T, c node.Config, run string) sitepolicy.Request {
	t.Helper()
	event := privacy.Event{Kind: privacy.Gaussian, Sigma: 20, Sensitivity: 1}
	return sitepolicy.Request{
		Run: run, Requester: "lab", SpecSHA256: hash(run), Question: hash("question"), Kind: sitepolicy.EmbeddingSum,
		Spec: sitepolicy.Spec{
			Dataset: "d", SchemaSHA256: hash(string(testkit.Read(t, c.Schema))), Unit: c.Unit, Pipeline: "embed",
			Epsilon: 1, Delta: 1e-5, Guarantee: "data-independent", Teachers: 8, Purpose: "study 12 of <age>",
			Plan: privacy.Plan{{Kind: string(sitepolicy.EmbeddingSum), Mechanism: event, Count: 1}},
		},
		Use: privacy.Use{Queries: 1, Answered: 1}, Charges: []privacy.Event{event.Times(1)},
	}
}

func open(t *testing.T, o Options) *consoletest.Browser {
	t.Helper()
	o.Listen = "127.0.0.1:0"
	s, err := New(o)
	testkit.Must(t, err)
	return consoletest.Serve(t, s.Address(), s.Serve)
}

// A person reads what waits, and their decisions are in the ledger and the audit log, like those of the commands.
func TestTheSitesWay(t *testing.T) {
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "connected", r.URL.Path)
	}))
	defer monitor.Close()
	path, enforcer, config := atSite(t, "ca.crt", "", strings.TrimPrefix(monitor.URL, "http://"))
	b := open(t, Options{Config: path})
	consoletest.Says(t, b.Get("/"), "site north, node 0", "connected /readyz", "Nothing at the moment.",
		"north.crt cannot be read")
	if err := enforcer.Ask(asks(t, config, "asked")); err == nil || !strings.Contains(err.Error(),
		"waits for approval") {
		t.Fatalf("error %v", err)
	}
	consoletest.Says(t, b.Get("/"), "from lab, for “study 12 of &lt;age&gt;”", "/runs/asked?spec="+hash("asked"))
	consoletest.Says(t, b.Get("/runs?filter=waiting"), "1 to 1 of 1", "asked")
	page := b.Get("/runs/asked?spec=" + hash("asked"))
	consoletest.Says(t, page, "requester: lab, according to the aggregator", "What leaves this node",
		"noise: standard deviation 20 x the maximum contribution of one record", "room for a run of 3 now",
		"pipelines · met · allowed: embed", "You decide as "+review.Whoami())
	for _, query := range []string{"/runs/asked?spec=ffff", "/runs/other"} {
		if status, _ := b.Ask(http.MethodGet, b.Base+query, "", nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", query, status)
		}
	}
	decide := func(run string, form url.Values) string { return b.Post("/runs/"+run+"/decide", form.Encode()) }
	spec := hash("asked")
	consoletest.Says(t, decide("asked", url.Values{"spec": {spec}}), "Failed.", "Choose approve or deny.")
	consoletest.Says(t, decide("asked", url.Values{"spec": {spec}, "decision": {"approve"}, "until": {"2001-01-01"}}),
		"Failed.", "give a later end")
	if err := enforcer.Ask(asks(t, config, "asked")); err == nil {
		t.Fatal("a run began that nobody approved")
	}
	consoletest.Says(t, decide("asked", url.Values{"spec": {spec}, "decision": {"approve"}, "until": {"2099-01-31"}}),
		"asked is approved by "+review.Whoami()+" until 2099-02-01", "Deny asked")
	testkit.Must(t, enforcer.Ask(asks(t, config, "asked")))
	_, err := enforcer.Charge(asks(t, config, "asked"))
	testkit.Must(t, err)
	consoletest.Says(t, decide("asked", url.Values{"spec": {spec}, "decision": {"deny"}}), "asked is denied by ")
	consoletest.Says(t, b.Get("/ledger"), "holds", "1 to 5 of 5", "charge", "approve", "deny", "embedding")
	consoletest.Says(t, b.Get("/ledger?filter=charge"), "1 to 1 of 1 found among 5")
	raw := string(testkit.Read(t, config.AuditLog))
	for _, want := range []string{`"event":"approval"`, `"event":"denial"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("the audit log has no %s: %s", want, raw)
		}
	}

	advance := url.Values{"name": {"lab-2099"}, "student": {"lab"}, "pipeline": {"embed"}, "epsilon": {"much"},
		"until": {"2099-01-31"}}
	consoletest.Says(t, b.Post("/advance", advance.Encode()), "Failed.", "is not a number")
	advance.Set("epsilon", "0.5")
	consoletest.Says(t, b.Post("/advance", advance.Encode()), "lab-2099 is approved", "runs of lab, pipelines embed")
	testkit.Must(t, enforcer.Ask(asks(t, config, "next")))
	status, err := enforcer.Status()
	testkit.Must(t, err)
	withdraw := url.Values{"spec": {status.InAdvance[0].SpecSHA256}, "decision": {"deny"}}
	consoletest.Says(t, decide("lab-2099", withdraw), "lab-2099 is denied")

	testkit.Must(t, os.WriteFile(config.Policy, []byte("datasets: ["), 0o600))
	consoletest.Says(t, b.Get("/"), "<strong>Nothing is answered.</strong>")
	file := config.LedgerPath()
	testkit.Must(t, os.WriteFile(file, []byte(strings.Replace(string(testkit.Read(t, file)), `"run":"asked"`,
		`"run":"other"`, 1)), 0o600))
	if status, text := b.Ask(http.MethodGet, b.Base+"/ledger", "", nil); status != http.StatusBadGateway ||
		!strings.Contains(text, "it was altered") {
		t.Errorf("a ledger that was altered: %d %s", status, text)
	}
}

// If the policy names persons, a console acts as one of them: opened twice it counts once.
func TestAConsoleIsOnePerson(t *testing.T) {
	dir := certstest.New(t)
	var approvers []string
	for _, name := range []string{"ann", "ben"} {
		testkit.Must(t, authority.Issue(dir, certs.RoleApprover, name, nil, time.Hour))
		f := certs.IssuedFiles(dir, certs.RoleApprover, name)
		pair, err := pemfile.LoadPair(f.Cert, f.Key)
		testkit.Must(t, err)
		approvers = append(approvers, fmt.Sprintf("{name: Dr. %s, key: %s}", name,
			testkit.Value(certs.Fingerprint(pair.Leaf.PublicKey))))
	}
	ca, _ := certs.AuthorityFiles(dir)
	path, enforcer, config := atSite(t, ca, ", approval_expires: 30d, approvals_needed: 2, approvers: ["+
		strings.Join(approvers, ", ")+"]", "")
	if err := enforcer.Ask(asks(t, config, "asked")); err == nil {
		t.Fatal("it begins")
	}
	form := url.Values{"spec": {hash("asked")}, "decision": {"approve"}}.Encode()
	ofNobody := open(t, Options{Config: path})
	consoletest.Says(t, ofNobody.Get("/"), "It has 0 of 2 approvals", "set http.listen")
	consoletest.Says(t, ofNobody.Post("/runs/asked/decide", form), "Failed.", "would not count")
	person := func(name string) *consoletest.Browser {
		f := certs.IssuedFiles(dir, certs.RoleApprover, name)
		return open(t, Options{Config: path, As: f.Cert, Key: f.Key})
	}
	ann, again, ben := person("ann"), person("ann"), person("ben")
	consoletest.Says(t, ann.Post("/runs/asked/decide", form), "asked is waiting (1 of 2)")
	consoletest.Says(t, again.Post("/runs/asked/decide", form), "asked is waiting (1 of 2)")
	consoletest.Says(t, ben.Post("/runs/asked/decide", form), "asked is approved by Dr. ann, Dr. ben until ")
	testkit.Must(t, enforcer.Ask(asks(t, config, "asked")))
	if _, err := New(Options{Listen: "127.0.0.1:0", Config: path, As: "x.crt"}); err == nil {
		t.Error("a certificate without a key is taken")
	}
}

// The page shows what the audit log has line by line, also if a line is torn.
func TestWhatLeft(t *testing.T) {
	path, _, config := atSite(t, "ca.crt", "", "")
	b := open(t, Options{Config: path})
	consoletest.Says(t, b.Get("/sent"), "0 answers with 0 bytes left")
	lines := `{"time":"2026-11-26T18:00:00.000Z","event":"started"}` + "\n"
	for i := range 3 {
		lines += fmt.Sprintf(`{"time":"2026-11-26T18:0%d:00.000Z","event":"answer","run":"r%d","bytes":1024}`, i,
			i%2) + "\n"
	}
	lines += `{"time":"2026-11-26T18:05:00.000Z","event":"refusal","run":"r1"}` + "\n\n" + `{"time":"20`
	testkit.Must(t, os.WriteFile(config.AuditLog, []byte(lines), 0o600))
	page := b.Get("/sent")
	consoletest.Says(t, page, "3 answers with 3.0 KiB left", "1 lines cannot be read", "1 to 2 of 2")
	if strings.Index(page, ">r1<") > strings.Index(page, ">r0<") {
		t.Error("the run that was answered last is not the first")
	}
	consoletest.Says(t, b.Get("/sent?q=r0"), "2.0 KiB", "1 to 1 of 1 found among 2")
}
