package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// run is a run.yaml of a small run.
func run(name string) string {
	return fmt.Sprintf("name: %s\nschema: schema.yaml\npurpose: which marker goes with age\n"+
		"privacy: {epsilon: 4, delta: 1e-5}\nteachers: %d\nrelease: {rows: 200}\npipeline: pategan\n"+
		"warm_start: {embed: 0}\npategan: {labels: 480, queries: 16, quorum: 1, deadline: 60, "+
		"student: {hidden: 8, layers: 1, generator_steps: 2, step: 0.01}}\n", name, 2*teachers)
}

// base is the address of a console without its token.
func base(address string) string { return address[:strings.Index(address, "/open")] }

// Each role follows its main path in a browser: a student submits, a site reads and approves, the student watches,
// fetches and reads the report, an operator sees who waits and why, verifies the ledger, and revokes a site.
func TestEachRoleGoesItsWay(t *testing.T) {
	c := newCluster(t)
	operator, student, site := newTab(t, "operator"), newTab(t, "student"), newTab(t, "site")
	opened := c.console("conclave", "operator.yaml", "--authority", c.path("certs"))
	operators, students, sites := base(opened), "", ""

	operator.goes(opened)
	operator.says("Overview", "2 of 2", "Epsilon 0 of 20 is spent")
	operator.fine("overview")
	operator.says("certificate of operator olga") // it ends within a month

	address := c.console("conclave", "student.yaml")
	students = base(address)
	student.goes(address)
	student.says("Overview")
	answer, err := http.Get(address)
	testkit.Must(t, err)
	if answer.Body.Close(); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token works twice: %s", answer.Status)
	}

	// The student submits, and the run waits for a person at north.
	c.write("run.yaml", "%s", run("first"))
	student.clicks("nav a[href='/submit']", "#run")
	student.fine("submit")
	student.do(chromedp.SetUploadFiles(chromedp.CSS("#run"), []string{c.path("run.yaml")}),
		chromedp.SetUploadFiles(chromedp.CSS("#schema"), []string{c.path("schema.yaml")}),
		chromedp.Click(chromedp.CSS("form button[type=submit]")), chromedp.WaitVisible(chromedp.CSS("dl.facts")))
	student.says("Run first is submitted", "north/0 waits for approval at site north")
	student.fine("waiting")

	// The operator, whose page is open, sees which node delays it, and why.
	operator.says("waits for approval")
	operator.clicks("nav a[href='/nodes']", "#nodes")
	operator.says("north/0", "waits for approval", "run first waits for approval at site north", "conclave 0.1.0")
	operator.fine("nodes")
	operator.goes(operators + "/queue")
	operator.says("first")
	operator.fine("queue")
	operator.goes(operators + "/runs/first")
	operator.says("north/0 waits for approval", "which marker goes with age")
	operator.fine("run")

	// The site reads what leaves and its cost, and approves.
	address = c.console("teacher", "teacher-north.yaml")
	sites = base(address)
	site.goes(address)
	site.says("lab asks, for “which marker goes with age”", "connected")
	site.fine("overview")
	site.clicks("main li a", "form[action$=decide]")
	site.says("What leaves this node", "What it costs this node", "Rules of the policy", "You decide as ")
	site.fine("brief")
	site.clicks("form.card button:not(.danger)", ".notice")
	site.says("first is approved by ")
	site.fine("approved")

	// The student's page updates by itself until the end.
	student.says("done")
	student.fine("done")
	student.clicks("form[action$=fetch] button", "a[href$=report]")
	student.says("files fetched, and all checks passed.")
	student.fine("fetched")
	student.clicks("a[href$=report]", "iframe")
	type shown struct {
		Status    int    `json:"status"`
		Policy    string `json:"policy"`
		Text      string `json:"text"`
		Forbidden bool   `json:"forbidden"`
	}
	report := value[shown](student, "(async () => {const a = await fetch('/runs/first/report.html');"+
		"return {status: a.status, policy: a.headers.get('content-security-policy'), text: await a.text(),"+
		"forbidden: document.querySelector('iframe').contentDocument === null}})()")
	if report.Status != 200 || !strings.Contains(report.Text, "first") || !report.Forbidden ||
		!strings.HasPrefix(report.Policy, "sandbox; default-src 'none'") {
		t.Errorf("the report: %d, %q, of another origin: %v", report.Status, report.Policy, report.Forbidden)
	}
	student.fine("report")
	student.goes(students + "/runs")
	student.says("first", "done")
	student.fine("runs")

	// The ledger verifies, and lists the spending of each run.
	operator.goes(operators + "/ledger")
	operator.clicks("form[action$=verify] button", ".state.holds")
	operator.says("entries, read and verified at", "release")
	operator.fine("ledger")
	operator.goes(operators + "/budgets")
	operator.says("lab")
	operator.fine("budgets")
	for _, page := range []string{"ledger", "sent", "runs", "advance"} {
		site.goes(sites + "/" + page)
		site.fine(page)
	}
	site.goes(sites + "/sent")
	site.says("first")

	// A second run is denied: the operator sees which site refuses it.
	c.write("second.yaml", "%s", run("second"))
	student.goes(students + "/submit")
	student.do(chromedp.SetUploadFiles(chromedp.CSS("#run"), []string{c.path("second.yaml")}),
		chromedp.SetUploadFiles(chromedp.CSS("#schema"), []string{c.path("schema.yaml")}),
		chromedp.Click(chromedp.CSS("form button[type=submit]")), chromedp.WaitVisible(chromedp.CSS("dl.facts")))
	student.says("north/0 waits for approval")
	site.goes(sites + "/")
	site.says("lab asks")
	site.do(chromedp.Click(chromedp.CSS("main li a")), chromedp.WaitVisible(chromedp.CSS("form[action$=decide]")),
		chromedp.Click(chromedp.CSS("form.card button.danger")), chromedp.WaitVisible(chromedp.CSS(".notice")))
	site.says("second is denied by ")
	student.says("failed")
	student.fine("failed")

	// A killed node is shown as not connected, and a node of a revoked site with the reason.
	testkit.Must(t, c.nodes["south"].Cmd.Process.Kill())
	operator.goes(operators + "/nodes")
	operator.says("not connected")
	operator.goes(operators + "/nodes/north")
	operator.says("Certificates")
	operator.fine("site")
	operator.do(chromedp.SetValue(chromedp.CSS("#reason"), "cessation-of-operation"),
		chromedp.SendKeys(chromedp.CSS("#confirm"), "north"),
		chromedp.Click(chromedp.CSS("form[action$=revoke] button")), chromedp.WaitVisible(chromedp.CSS(".notice")))
	operator.says("Revoked 1 certificate of north", "revoked", "not connected", "no longer valid")
	operator.fine("revoked")
	operator.goes(operators + "/certificates")
	operator.says("revoked")
	operator.fine("certificates")
	operator.goes(operators + "/")
	operator.fine("concerns")
}

// The keyboard reaches everything, and the focus stays when the page updates itself.
func TestByKeyboard(t *testing.T) {
	c := newCluster(t)
	b := newTab(t, "keyboard")
	b.goes(c.console("conclave", "operator.yaml"))
	focus := func() string { return value[string](b, "document.activeElement.textContent.trim()") }
	b.do(chromedp.KeyEvent("\t"))
	if got := focus(); got != "Skip to content" {
		t.Errorf("first comes %q", got)
	}
	var order []string
	for range 7 {
		b.do(chromedp.KeyEvent("\t"))
		order = append(order, focus())
	}
	testkit.Same(t, "the navigation", []string{"Overview", "Runs", "Queue", "Sites and nodes", "Budgets", "Ledger",
		"Certificates"}, order)
	b.do(chromedp.Focus(chromedp.CSS("#live a")))
	before := focus()
	testkit.Must(t, c.nodes["south"].Cmd.Process.Kill())
	b.says("1 of 2")
	if got := focus(); got != before || before == "" {
		t.Errorf("the focus went from %q to %q", before, got)
	}
	said := value[string](b, "document.getElementById('announce').textContent")
	if !strings.Contains(said, "1 of 2 nodes") {
		t.Errorf("a screen reader is told %q", said)
	}
}
