package run

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The files of a queued run, in its folder at the worker.
const (
	submittedRun    = "run.yaml"
	submittedSchema = "schema.yaml"
	submittedStudy  = "study.yaml"
)

// The largest files that an aggregator accepts, in bytes.
const (
	maxSubmittedRun    = 64 << 10
	maxSubmittedSchema = 1 << 20
)

// Submission is a run that another machine can execute. It needs only its run.yaml, its schema and its study.
type Submission struct {
	Spec *runfile.Spec
	// RunFile is the run.yaml, which names schema.yaml and study.yaml next to it.
	RunFile []byte
	// Schema is the schema file, byte for byte. Study is the study file, nil without a study.
	Schema, Study []byte
}

// NewSubmission makes a submission from a run.yaml and its schema. It refuses fields that refer to this machine, each
// by name.
func NewSubmission(path string) (*Submission, *Job, error) {
	spec, err := runfile.Load(path)
	if err != nil {
		return nil, nil, err
	}
	if err := spec.CheckPortable(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	job, err := Prepare(spec)
	if err != nil {
		return nil, nil, err
	}
	if err := spec.CheckStudyGoesOn(); err != nil {
		return nil, nil, err
	}
	runFile, err := withFilesBeside(spec.Text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	var study []byte
	if spec.Agreed != nil {
		study = spec.Agreed.Text
	}
	s, err := ParseSubmission(spec.Name, runFile, job.Schema.Raw(), study)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, job, nil
}

// WriteUpload writes an uploaded run.yaml, its schema and its study into a folder, and returns the path of the
// run.yaml. It names them schema.yaml and study.yaml, since uploads have no paths. study is empty if the run
// has no study.
func WriteUpload(dir string, runFile, schema, study []byte) (path string, err error) {
	beside, err := withFilesBeside(string(runFile))
	if err != nil {
		return "", fmt.Errorf("run.yaml: %w", err)
	}
	spec := runfile.DefaultSpec()
	if err := spec.Parse(string(beside)); err != nil {
		return "", fmt.Errorf("run.yaml: %w", err)
	}
	if (spec.Study == "") != (len(study) == 0) {
		return "", errors.New("run.yaml: study: submit a study exactly if run.yaml names one")
	}
	return filepath.Join(dir, submittedRun), (&Submission{Spec: spec, RunFile: beside, Schema: schema,
		Study: study}).Write(dir)
}

// ParseSubmission reads a submission from another machine. It trusts no part of it, and touches no file.
func ParseSubmission(name string, runFile, schema, study []byte) (*Submission, error) {
	if len(runFile) > maxSubmittedRun || len(schema) > maxSubmittedSchema {
		return nil, fmt.Errorf("the run.yaml has %d bytes and the schema %d; the maximum is %d and %d", len(runFile),
			len(schema), maxSubmittedRun, maxSubmittedSchema)
	}
	spec := runfile.DefaultSpec()
	spec.ByData()
	if err := spec.Parse(string(runFile)); err != nil {
		return nil, fmt.Errorf("run.yaml: %w", err)
	}
	if spec.Study != "" {
		if err := spec.TakeStudy(study); err != nil {
			return nil, fmt.Errorf("run.yaml: %w", err)
		}
	}
	parsed, schemaErr := partition.ParseSchema(schema)
	spec.Choose(parsed)
	spec.Text, spec.Path = string(runFile), submittedRun
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("run.yaml: %w", err)
	}
	if err := spec.CheckPortable(); err != nil {
		return nil, fmt.Errorf("run.yaml: %w", err)
	}
	if spec.Name != name {
		return nil, fmt.Errorf("run.yaml is for run %q, but run %q was submitted", spec.Name, name)
	}
	if spec.Schema != submittedSchema {
		return nil, fmt.Errorf("schema: %q; a queued run must have its schema next to it, in %s", spec.Schema,
			submittedSchema)
	}
	if spec.Study != "" && spec.Study != submittedStudy {
		return nil, fmt.Errorf("study: %q; a queued run must have its study next to it, in %s", spec.Study,
			submittedStudy)
	}
	if schemaErr != nil {
		return nil, schemaErr
	}
	return &Submission{Spec: spec, RunFile: runFile, Schema: schema, Study: study}, nil
}

// besides lists the files that accompany a run.yaml, and the lines that name them.
var besides = []struct {
	field, file string
	line        *regexp.Regexp
	path        func(*runfile.Spec) *string
}{
	{"schema", submittedSchema, regexp.MustCompile(`(?m)^schema:[ \t].*$`),
		func(s *runfile.Spec) *string { return &s.Schema }},
	{"study", submittedStudy, regexp.MustCompile(`(?m)^study:[ \t].*$`),
		func(s *runfile.Spec) *string { return &s.Study }},
}

// withFilesBeside is the text of a run.yaml that names a schema and a study next to it.
func withFilesBeside(text string) ([]byte, error) {
	spec := runfile.DefaultSpec()
	if err := spec.Parse(text); err != nil {
		return nil, err
	}
	for _, b := range besides {
		if *b.path(spec) == "" {
			continue
		}
		changed, ok := text, false
		if lines := b.line.FindAllStringIndex(text, -1); len(lines) == 1 {
			end := ""
			if strings.HasSuffix(text[:lines[0][1]], "\r") {
				end = "\r"
			}
			changed = text[:lines[0][0]] + b.field + ": " + b.file + end + text[lines[0][1]:]
			// The result must have the same meaning, except for the path.
			after := runfile.DefaultSpec()
			*b.path(spec) = b.file
			ok = after.Parse(changed) == nil && reflect.DeepEqual(spec, after)
		}
		if !ok {
			return nil, fmt.Errorf("%s: write `%s: PATH` on a line of its own, because submit replaces the "+
				"path", b.field, b.field)
		}
		text = changed
	}
	return []byte(text), nil
}

// Write writes the files to a folder, which it creates if needed.
func (s *Submission) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the run's folder: %w", err)
	}
	files := map[string][]byte{submittedRun: s.RunFile, submittedSchema: s.Schema}
	if s.Spec.Study != "" {
		files[submittedStudy] = s.Study
	}
	for name, raw := range files {
		if err := results.WriteFile(filepath.Join(dir, name), func(b *bytes.Buffer) error {
			_, err := b.Write(raw)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Job prepares the run whose files Write put into a folder. agreed is the spec with which the run was
// submitted: its submitter was told that budget and that schema. The noise is planned anew, as it may differ in
// the last digits between machines.
func (s *Submission) Job(dir string, agreed *conclavev1.RunSpec) (*Job, error) {
	spec := s.Spec.Clone()
	spec.Resolve(filepath.Join(dir, submittedRun))
	job, err := Prepare(spec)
	if err != nil {
		return nil, err
	}
	own := RunSpec(job.Plan, spec, job.Schema, agreed.GetDataset(), false)
	for _, f := range []struct {
		field      string
		own, other any
	}{
		{"name", own.GetName(), agreed.GetName()},
		{"pipeline", own.GetPipeline(), agreed.GetPipeline()},
		{"schema", own.GetSchemaSha256(), agreed.GetSchemaSha256()},
		{"privacy.epsilon", own.GetEpsilon(), agreed.GetEpsilon()},
		{"privacy.delta", own.GetDelta(), agreed.GetDelta()},
		{"privacy.unit", own.GetUnit(), agreed.GetUnit()},
		{"privacy.overlap", own.GetOverlap(), agreed.GetOverlap()},
		{"teachers", own.GetTeachers(), agreed.GetTeachers()},
		{"purpose", own.GetPurpose(), agreed.GetPurpose()},
		{"study.sha256", own.GetStudy().GetSha256(), agreed.GetStudy().GetSha256()},
	} {
		if f.own != f.other {
			return nil, fmt.Errorf("%s: the run.yaml says %v, but the run was submitted with %v", f.field, f.own,
				f.other)
		}
	}
	return job, nil
}

// Begun returns the names of up to most runs with a checkpoint in a folder, newest first. Finished ones may be
// among them, because their worker may have died before it reported the end.
func Begun(out string, most int) []string {
	entries, err := os.ReadDir(out)
	if err != nil {
		return nil
	}
	saved := map[string]time.Time{}
	for _, e := range entries {
		if info, err := os.Stat(results.CheckpointPath(filepath.Join(out, e.Name()))); err == nil &&
			config.CheckName(e.Name()) == nil {
			saved[e.Name()] = info.ModTime()
		}
	}
	names := slices.SortedFunc(maps.Keys(saved), func(a, b string) int { return saved[b].Compare(saved[a]) })
	return names[:min(len(names), most)]
}

// Finished returns the names of queued runs in a folder whose results were written before a time.
func Finished(out string, before time.Time) (names []string) {
	entries, err := os.ReadDir(out)
	if err != nil {
		return nil
	}
entries:
	for _, e := range entries {
		if !e.IsDir() || config.CheckName(e.Name()) != nil {
			continue
		}
		for _, file := range []string{submittedRun, submittedSchema, proof.ManifestFile} {
			info, err := os.Lstat(filepath.Join(out, e.Name(), file))
			if err != nil || !info.Mode().IsRegular() || file == proof.ManifestFile && !info.ModTime().Before(before) {
				continue entries
			}
		}
		names = append(names, e.Name())
	}
	return names
}
