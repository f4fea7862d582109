package cluster

import (
	"archive/zip"
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/console/consoletest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func open(t *testing.T, role certs.Role, name string, from *consoletest.Aggregator,
	authority string) *consoletest.Browser {
	t.Helper()
	o := Options{Listen: "127.0.0.1:0", Config: student.Config{Dataset: consoletest.Dataset}, Authority: authority,
		Log: zap.NewNop()}
	c, err := New(o, certs.Identity{Role: role, Name: name}, from, t.TempDir())
	testkit.Must(t, err)
	return consoletest.Serve(t, c.Address(), c.Serve)
}

// With a thousand nodes and ten thousand runs each page is small, and comes without waiting for a list.
func TestALargeCluster(t *testing.T) {
	from := consoletest.New(1000, 10_000)
	b := open(t, certs.RoleOperator, "olga", from, "")
	for path, texts := range map[string][]string{
		"/": {"960 of 1000", "500 sites", "node site-0003/1", "And 30 more", "run-09999",
			"Epsilon 7.5 of 20"},
		"/runs":                 {"1 to 50 of 10000", "run-09950", `href="/runs?page=200"`},
		"/runs?page=200":        {"9951 to 10000 of 10000", "run-00000"},
		"/runs?q=00123&page=1":  {"1 to 1 of 1 found among 10000", "run-00123"},
		"/runs?filter=failed":   {"1 to 50 of 100 found among 10000", "its worker&#39;s disk was full"},
		"/queue":                {"1 to 3 of 3", "run-09999", "waits for budget"},
		"/nodes":                {"1 to 50 of 1000", "site-0000/0", "conclave 0.1.0", "2099-01-31"},
		"/nodes?filter=stalled": {"1 to 20 of 20 found among 1000", "has not answered"},
		"/nodes?q=site-0499":    {"1 to 2 of 2 found among 1000"},
		"/nodes/site-0003":      {"Node 1 on dataset cohort", "stalled", "with <code>--authority DIR</code>"},
		"/budgets":              {"1 to 10 of 10", "lab-3", `<td class="number">1000</td>`},
		"/certificates":         {"1 to 50 of 500", "site-0000"},
		"/runs/run-09997":       {"round 30 of 60", "Cancel run run-09997", `data-events="/runs/run-09997/events"`},
		"/ledger":               {"Read and verify the ledger"},
	} {
		page := b.Get(path)
		consoletest.Says(t, page, texts...)
		if rows := strings.Count(page, "<tr>"); rows > 60 || len(page) > 64<<10 {
			t.Errorf("%s has %d rows and %d bytes", path, rows, len(page))
		}
		if strings.Contains(page, "<style") || strings.Contains(page, "style=") || strings.Contains(page, "onclick") ||
			strings.Contains(page, "<script>") {
			t.Errorf("%s has a style or script of its own", path)
		}
	}
	if n := from.Asked(); n > 5 {
		t.Errorf("for 14 pages the runs were listed %d times", n)
	}
	for _, path := range []string{"/nodes/nowhere", "/submit", "/runs/run-00000/report"} {
		if status, _ := b.Ask(http.MethodGet, b.Base+path, "", nil); status != http.StatusNotFound {
			t.Errorf("%s of an operator: %d", path, status)
		}
	}
	if status, page := b.Ask(http.MethodGet, b.Base+"/runs/none", "", nil); status != http.StatusNotFound {
		t.Errorf("a run that there is not: %d %s", status, page)
	}
}

// A person's own action is on the next page at once, and others' actions soon.
func TestWhatChangesIsShown(t *testing.T) {
	from := consoletest.New(4, 40)
	b := open(t, certs.RoleOperator, "olga", from, "")
	b.Get("/runs")
	consoletest.Says(t, b.Post("/runs/run-00039/cancel", ""), "Run run-00039 is cancelled. It had not started")
	consoletest.Says(t, b.Get("/runs?filter=cancelled"), "1 to 1 of 1")
	consoletest.Says(t, b.Post("/runs/run-00000/remove", ""), "Run run-00000 is removed.")
	consoletest.Says(t, b.Get("/runs"), "1 to 39 of 39")
	if status, page := b.Ask(http.MethodPost, b.Base+"/runs/none/cancel", "", nil); status != http.StatusNotFound {
		t.Errorf("a run that there is not was cancelled: %d %s", status, page)
	} else {
		consoletest.Says(t, page, "Failed.", "there is no run")
	}

	at := strings.SplitN(strings.SplitN(b.Get("/queue"), `data-events="`, 2)[1], `"`, 2)[0]
	stream, err := b.Client.Get(b.Base + at)
	testkit.Must(t, err)
	defer stream.Body.Close()
	lines := make(chan string, 100)
	go func() {
		buffer := make([]byte, 1<<10)
		for {
			n, err := stream.Body.Read(buffer)
			if err != nil {
				return
			}
			lines <- string(buffer[:n])
		}
	}()
	testkit.Receive(t, lines) // the retry interval
	from.Change("run-00038", func(r *conclavev1.RunStatus) { r.Reason = "waiting for a worker" })
	began := time.Now()
	if line := testkit.Receive(t, lines); !strings.Contains(line, "event: change") {
		t.Errorf("the stream says %q", line)
	}
	t.Logf("a change was told after %v", time.Since(began))
	consoletest.Says(t, b.Get("/queue"), "waiting for a worker")
}

// A student submits, fetches and reads the report, and cannot do what operators do with certificates.
func TestAStudent(t *testing.T) {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	f, err := z.Create(reportFile)
	testkit.Must(t, err)
	_, err = f.Write([]byte("<h1>what came out</h1><script>alert(1)</script>"))
	testkit.Must(t, err)
	testkit.Must(t, z.Close())
	from := consoletest.New(0, 20)
	from.Bundle = packed.Bytes()
	b := open(t, certs.RoleStudent, "lab-1", from, "")
	consoletest.Says(t, b.Get("/"), "student lab-1", "/submit")
	for _, path := range []string{"/nodes", "/queue", "/certificates", "/budgets", "/nodes/site-0000"} {
		if status, _ := b.Ask(http.MethodGet, b.Base+path, "", nil); status != http.StatusNotFound {
			t.Errorf("%s of a student: %d", path, status)
		}
	}
	submit := func(run, schema string) string {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		for name, text := range map[string]string{"run": run, "schema": schema} {
			part, err := w.CreateFormFile(name, name+".yaml")
			testkit.Must(t, err)
			_, err = part.Write([]byte(text))
			testkit.Must(t, err)
		}
		testkit.Must(t, w.Close())
		_, page := b.Ask(http.MethodPost, b.Base+"/submit", w.FormDataContentType(), &form)
		return page
	}
	consoletest.Says(t, submit("name: x\nschema: ../elsewhere/s.yaml\n", "columns: []\n"), "Run submitted is submitted",
		"schema: schema.yaml")
	consoletest.Says(t, submit("name: [x\n", ""), "Failed.", "run.yaml: ")
	consoletest.Says(t, b.Post("/submit", "run=x"), "Failed.", "Choose a file for run.yaml.")

	if status, _ := b.Ask(http.MethodGet, b.Base+"/runs/run-00011/report", "", nil); status != http.StatusNotFound {
		t.Errorf("a report before it was fetched: %d", status)
	}
	consoletest.Says(t, b.Get("/runs/run-00011"), "Fetch the results")
	consoletest.Says(t, b.Post("/runs/run-00011/fetch", ""), "all checks passed", "Read the report")
	consoletest.Says(t, b.Get("/runs/run-00011/report"), `sandbox></iframe>`)
	got, err := b.Client.Get(b.Base + "/runs/run-00011/report.html")
	testkit.Must(t, err)
	got.Body.Close()
	testkit.Same(t, "the policy of the report", reportPolicy, got.Header.Get("Content-Security-Policy"))
	if zipped := b.Get("/runs/run-00011/bundle.zip"); zipped != packed.String() {
		t.Error("another bundle is saved")
	}
	if page := b.Get("/runs/run-00012"); strings.Contains(page, "Fetch the results") {
		t.Error("the run of another student is offered")
	}
}

// A lying aggregator may have a run whose name is a path: its bundle stays in the console's folder.
func TestARunWhoseNameIsAPath(t *testing.T) {
	from := consoletest.New(0, 20)
	from.Bundle = []byte("any")
	from.Change("run-00011", func(r *conclavev1.RunStatus) { r.Name = "../x" })
	b := open(t, certs.RoleStudent, "lab-1", from, "")
	consoletest.Says(t, b.Get("/runs/..%2Fx"), "Fetch the results")
	b.Ask(http.MethodPost, b.Base+"/runs/..%2Fx/fetch", "", nil)
	if _, err := os.Stat(filepath.Join(t.TempDir(), "..", "x.zip")); err == nil {
		t.Error("the bundle is elsewhere")
	}
}

// aLedger has the lines of a ledger with one run, which released a class share.
func aLedger(t *testing.T) (lines [][]byte) {
	t.Helper()
	share := privacy.Event{Kind: privacy.Laplace, Epsilon: 0.1}
	price, err := privacy.Running([]privacy.Event{share.Times(1)}, 1e-5)
	testkit.Must(t, err)
	spent, budget, sum := price.Epsilon, &privacy.Budget{Epsilon: 1, Delta: 1e-5}, strings.Repeat("0a", 32)
	var previous *ledger.Entry
	for _, e := range []ledger.Entry{
		{Type: ledger.EntryOpen, Opening: ledger.Opening{
			Budget: budget, Unit: partition.UnitRecord, Neighbouring: "add-or-remove-one-unit",
		}},
		{Type: ledger.EntryRun, Run: "small", Opening: ledger.Opening{
			Budget: budget, Plan: privacy.Plan{{Kind: "class-counts", Mechanism: share}},
			Facts: &ledger.Facts{Student: "ada", Pipeline: "pategan", SchemaSHA256: sum, Teachers: 4},
		}},
		{Type: ledger.EntryRoster, Run: "small", Roster: []ledger.Site{{Site: "north", Nodes: 1, Teachers: 4}}},
		{Type: ledger.EntryRelease, Run: "small", Round: new(uint64), Planned: new(int), Kind: "class-counts",
			Charge: ledger.Charge{Events: []privacy.Event{share.Times(1)}, Queries: 1, Answered: 1,
				EpsilonSpent: spent, ReleaseSHA256: sum}},
		{Type: ledger.EntryClose, Run: "small", Charge: ledger.Charge{EpsilonSpent: spent}},
	} {
		if e.Dataset = consoletest.Dataset; e.Type != ledger.EntryRelease {
			e.Day = "2026-03-01"
		}
		testkit.Must(t, e.Seal(previous))
		lines, previous = append(lines, testkit.Value(e.Canonical())), &e
	}
	return lines
}

// The ledger is verified as by the command, and problems are shown.
func TestLedger(t *testing.T) {
	lines := aLedger(t)
	from := consoletest.New(2, 5)
	from.Lines = lines
	b := open(t, certs.RoleOperator, "olga", from, "")
	consoletest.Says(t, b.Post("/ledger/verify", "dataset="+consoletest.Dataset), "The ledger of cohort holds",
		"read and verified at", "release")
	consoletest.Says(t, b.Get("/ledger?dataset=cohort&filter=close"), `value="cohort"`, "1 to 1 of 1")
	from.Lines = append(lines[:2:2], bytes.Replace(lines[2], []byte(`"seq":3`), []byte(`"seq":4`), 1))
	consoletest.Says(t, b.Post("/ledger/verify", "dataset="+consoletest.Dataset), "Failed.", "does not hold",
		"line 3")
	consoletest.Says(t, b.Post("/ledger/verify", "dataset=other"), "Failed.", "You have no started run")
}

// A kit's certificate ends soon from the start. It only needs attention while its site has not joined.
func TestKitsOfSitesThatHaveJoinedNeedNobody(t *testing.T) {
	dir := certstest.New(t)
	for _, site := range []string{"site-0000", "site-0001"} {
		testkit.Must(t, authority.Issue(dir, certs.RoleJoiner, site, nil, time.Hour))
	}
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "site-0000", nil, 1000*time.Hour))
	page := open(t, certs.RoleOperator, "olga", consoletest.New(2, 1), dir).Get("/")
	consoletest.Says(t, page, "certificate of joiner site-0001")
	if strings.Contains(page, "certificate of joiner site-0000") {
		t.Error("the kit of a site that has joined needs somebody")
	}
}

// Certificates are revoked as by `conclave site revoke`, by a person who types the site's name and has the authority.
func TestRevoking(t *testing.T) {
	dir := certstest.New(t)
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "site-0000", nil, time.Hour))
	b := open(t, certs.RoleOperator, "olga", consoletest.New(2, 1), dir)
	consoletest.Says(t, b.Get("/"), "certificate of node site-0000")
	consoletest.Says(t, b.Get("/certificates?q=site-0000"), "expires soon", "1 to 1 of 1")
	consoletest.Says(t, b.Post("/nodes/site-0000/revoke", "confirm=no&reason=superseded"), "Failed.", "type its name")
	consoletest.Says(t, b.Post("/nodes/site-0000/revoke", "confirm=site-0000&reason=why"), "Failed.", "is unknown")
	consoletest.Says(t, b.Post("/nodes/site-0000/revoke", "confirm=site-0000&reason=superseded"),
		"Revoked 1 certificate of site-0000", "revoked", "The site has no valid certificate")
	if _, err := os.Stat(certs.RevokedFile(dir)); err != nil {
		t.Error(err)
	}
	b = open(t, certs.RoleOperator, "olga", consoletest.New(2, 1), "")
	consoletest.Says(t, b.Post("/nodes/site-0000/revoke", "confirm=site-0000"), "Failed.", "without --authority")
}
