package cluster

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/requester"
)

// reportFile is the path of the report without real rows in a bundle.
const reportFile = "shared/report.html"

// reportPolicy lets the report show only its own inline styles and pictures, without scripts.
const reportPolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; " +
	"base-uri 'none'; form-action 'none'"

// result is a fetched and verified bundle.
type result struct {
	requester.Fetched
	Path   string
	Proven bool
}

// fetched has the bundles of this console, in a folder that is removed with it.
type fetched struct {
	folder string
	mu     sync.Mutex
	of     map[string]*result
}

func newFetched(folder string) *fetched { return &fetched{folder: folder, of: map[string]*result{}} }

func (f *fetched) get(run string) *result {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[run]
}

// path is the path of a run's bundle. A lying aggregator may have runs whose names are paths.
func (f *fetched) path(run string) string {
	return filepath.Join(f.folder, fmt.Sprintf("%x.zip", sha256.Sum256([]byte(run))))
}

func (c *Cluster) resultPages() {
	c.Post("/runs/{name}/fetch", c.fetch)
	c.Get("/runs/{name}/report", c.report)
	c.Handle("GET /runs/{name}/report.html", c.reportFile)
	c.Handle("GET /runs/{name}/bundle.zip", c.bundle)
}

// fetch fetches and verifies a run's bundle, as `conclave run fetch` does.
func (c *Cluster) fetch(r *http.Request) (to, say string, err error) {
	name := r.PathValue("name")
	to = "/runs/" + name
	if c.fetched.get(name) != nil {
		return to, "The run was fetched before.", nil
	}
	f := requester.Fetching{
		Run: name, Out: c.fetched.path(name), Authority: c.trusted, Force: true,
		Unproven: r.PostFormValue("unproven") == "yes",
	}
	came, err := c.from.FetchBundle(r.Context(), f)
	if err != nil {
		return to, "", err
	}
	c.fetched.mu.Lock()
	c.fetched.of[name] = &result{came, f.Out, came.Verdict == proof.Proven}
	c.fetched.mu.Unlock()
	if came.Verdict != proof.Proven {
		return to, fmt.Sprintf("%d files fetched. A signature is missing: they are not proven.", came.Files), nil
	}
	return to, fmt.Sprintf("%d files fetched, and all checks passed.", came.Files), nil
}

// bundle serves the file of a fetched run.
func (c *Cluster) bundle(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	had := c.fetched.get(name)
	if had == nil {
		http.Error(w, "fetch the run first", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.zip"`)
	http.ServeFile(w, r, had.Path)
}

// report is the page around the report of a run.
func (c *Cluster) report(r *http.Request) (console.View, error) {
	name := r.PathValue("name")
	if c.fetched.get(name) == nil {
		return console.View{}, console.NotFound("run %q is not fetched; fetch it on its page first", name)
	}
	return console.View{Page: "report", Title: "Report of run " + name, Data: name}, nil
}

// reportFile serves the report itself. It came from another machine, so it runs no script and has no origin.
func (c *Cluster) reportFile(w http.ResponseWriter, r *http.Request) {
	had := c.fetched.get(r.PathValue("name"))
	if had == nil {
		http.Error(w, "fetch the run first", http.StatusNotFound)
		return
	}
	text, err := readReport(had.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Security-Policy", reportPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text)
}

// maxReport bounds a report, in bytes.
const maxReport = 64 << 20

func readReport(bundle string) ([]byte, error) {
	z, err := zip.OpenReader(bundle)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	f, err := z.Open(reportFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("the bundle has no report")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxReport))
}
