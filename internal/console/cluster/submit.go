package cluster

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/run"
)

func (c *Cluster) submitPages() {
	c.Get("/submit", func(*http.Request) (console.View, error) {
		return console.View{Page: "submit", Title: "Submit a run", Data: c.dataset}, nil
	})
	c.Post("/submit", c.submit)
}

// submit queues a run, as `conclave run submit` does.
func (c *Cluster) submit(r *http.Request) (to, say string, err error) {
	runFile, err := fileOf(r, "run", "run.yaml")
	if err != nil {
		return "/submit", "", err
	}
	schema, err := fileOf(r, "schema", "the schema")
	if err != nil {
		return "/submit", "", err
	}
	study, err := fileOf(r, "study", "the study")
	if err != nil && len(r.MultipartForm.File["study"]) > 0 {
		return "/submit", "", err
	}
	folder, err := os.MkdirTemp(c.fetched.folder, "submit-")
	if err != nil {
		return "/submit", "", err
	}
	defer os.RemoveAll(folder)
	path, err := run.WriteUpload(folder, runFile, schema, study)
	if err != nil {
		return "/submit", "", err
	}
	answer, err := c.from.SubmitFile(r.Context(), path, r.PostFormValue("overcommit") == "yes")
	if err != nil {
		// The path is that of a temporary copy.
		return "/submit", "", errors.New(strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), ""))
	}
	name := answer.GetRun().GetName()
	c.cache.expire(name)
	sentences := []string{fmt.Sprintf("Run %s is submitted: %s", name, requester.Standing(answer.GetRun()))}
	if answer.GetExisting() {
		sentences[0] = fmt.Sprintf("Run %s was already submitted: %s", name, requester.Standing(answer.GetRun()))
	}
	for _, note := range requester.Notes(answer) {
		sentences = append(sentences, strings.ToUpper(note[:1])+note[1:])
	}
	return "/runs/" + name, strings.Join(sentences, ". ") + ".", nil
}

func fileOf(r *http.Request, field, what string) ([]byte, error) {
	f, _, err := r.FormFile(field)
	if err != nil {
		return nil, fmt.Errorf("choose a file for %s", what)
	}
	defer func(f multipart.File) { _ = f.Close() }(f)
	return io.ReadAll(f)
}
