package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A submission has the same meaning at the worker, whatever the schema's path was.
func TestASubmissionIsTheSameRunElsewhere(t *testing.T) {
	for what, line := range map[string]string{
		"beside": "schema: schema.yaml", "elsewhere": `schema: "../public/schema.yaml"  # everybody's`,
		"absolute": "schema: 'ABSOLUTE'",
		"windows":  "schema: schema.yaml\r",
	} {
		dir := write(t, map[string]string{"schema.yaml": schemaText})
		here := filepath.Join(dir, "here")
		for _, folder := range []string{here, filepath.Join(dir, "public")} {
			testkit.Must(t, os.Mkdir(folder, 0o755))
			testkit.Must(t, os.WriteFile(filepath.Join(folder, "schema.yaml"), []byte(schemaText), 0o644))
		}
		text := "# schema: of nobody\n" + replaced(t, good, "schema: schema.yaml",
			strings.Replace(line, "ABSOLUTE", filepath.Join(dir, "schema.yaml"), 1)) + "seed: 7\n"
		path := filepath.Join(here, "run.yaml")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
		s, job, err := NewSubmission(path)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		agreed := RunSpec(job.Plan, job.Spec, job.Schema, "d", false)
		received, err := ParseSubmission("r1", s.RunFile, s.Schema, s.Study)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		there := filepath.Join(dir, "there", "r1")
		testkit.Must(t, received.Write(there))
		again, err := received.Job(there, agreed)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !reflect.DeepEqual(again.Plan, job.Plan) || again.Spec.Seed != 7 ||
			again.Schema.SHA256 != job.Schema.SHA256 {
			t.Errorf("%s: the plan is %+v, was %+v", what, again.Plan, job.Plan)
		}
		// The folder's own file can be run, too.
		if _, err := runfile.Load(filepath.Join(there, "run.yaml")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The study accompanies its run, and its text is in the run's spec; a worker refuses any other study.
func TestAStudyGoesAlongWithItsRun(t *testing.T) {
	dir := write(t, map[string]string{"schema.yaml": schemaText, "agreed.yaml": studyText,
		"run.yaml": good + "study: agreed.yaml # ours\n"})
	s, job, err := NewSubmission(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	agreed := RunSpec(job.Plan, job.Spec, job.Schema, "d", false)
	of := agreed.GetStudy()
	if of.GetTitle() != "Heart failure in three hospitals" || of.GetExpires() != "2199-06-30" ||
		of.GetSha256() != study.Hash([]byte(studyText)) || agreed.GetPurpose() != of.GetPurpose() {
		t.Errorf("the spec says %v", agreed)
	}
	if string(s.Study) != studyText || !strings.Contains(string(s.RunFile), "\nstudy: study.yaml\n") {
		t.Errorf("the submission is %s, %s", s.RunFile, s.Study)
	}
	there := t.TempDir()
	testkit.Must(t, s.Write(there))
	again, err := s.Job(there, agreed)
	testkit.Must(t, err)
	if own := RunSpec(again.Plan, again.Spec, again.Schema, "d", false); !proto.Equal(own, agreed) {
		t.Errorf("the worker has %v", own)
	}
	if _, err := runfile.Load(filepath.Join(there, "run.yaml")); err != nil {
		t.Errorf("the folder's own file: %v", err)
	}
	for want, c := range map[string]struct{ runFile, study string }{
		"have its study next to it":       {replaced(t, string(s.RunFile), "study.yaml", "/etc/passwd"), studyText},
		"study: ":                         {string(s.RunFile), ""},
		"pipeline: study heart":           {string(s.RunFile) + "pipeline: gpate\n", studyText},
		"exceeds the budget of study":     {string(s.RunFile), replaced(t, studyText, "epsilon: 2", "epsilon: 0.5")},
		"study.sha256: the run.yaml says": {string(s.RunFile), studyText + "# other\n"},
		`does not allow stage "selections"`: {string(s.RunFile) + "pipeline: pategan\npost: [pgb]\n",
			studyText},
	} {
		other, err := ParseSubmission("r1", []byte(c.runFile), s.Schema, []byte(c.study))
		if err == nil {
			_, err = other.Job(there, agreed)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
	ended := write(t, map[string]string{"schema.yaml": schemaText, "run.yaml": good + "study: study.yaml\n",
		"study.yaml": replaced(t, studyText, "2199-06-30", "2020-06-30")})
	if _, _, err := NewSubmission(filepath.Join(ended, "run.yaml")); !errors.Is(err, study.ErrEnded) {
		t.Errorf("a study that has ended: %v", err)
	}
}

func TestRunsThatCannotBeSubmitted(t *testing.T) {
	for want, text := range map[string]string{
		"data: files":                good + "data: [{site: north, file: a.csv}]\n",
		"evaluate.test: files":       good + "evaluate: {test: a.csv}\n",
		"evaluate.train: files":      good + "evaluate: {test: a.csv, train: b.csv}\n",
		"evaluate.coin_flips: files": good + "evaluate: {test: a.csv, coin_flips: b.csv}\n",
		"on a line of its own": "{name: r1, schema: schema.yaml, privacy: {epsilon: 1, delta: 1e-5}, " +
			"teachers: 4}\n",
		"privacy.unit":         replaced(t, good, "{epsilon: 1,", "{unit: ward, epsilon: 1,"),
		"epsilon":              replaced(t, good, "epsilon: 1", "epsilon: 0"),
		"no such file":         replaced(t, good, "schema.yaml", "none.yaml"),
		"the maximum is 65536": good + "#" + strings.Repeat("x", 1<<16) + "\n",
	} {
		dir := write(t, map[string]string{"schema.yaml": schemaText, "run.yaml": text})
		if _, _, err := NewSubmission(filepath.Join(dir, "run.yaml")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
}

// A worker trusts nothing that it receives.
func TestSubmissionsThatWereTamperedWith(t *testing.T) {
	for want, c := range map[string]struct{ name, text, schema string }{
		`is for run "r1", but run "r2"`: {"r2", good, schemaText},
		"a queued run must have its": {"r1", replaced(t, good, "schema: schema.yaml", "schema: /etc/passwd"),
			schemaText},
		"evaluate.test":                   {"r1", good + "evaluate: {test: /etc/passwd}\n", schemaText},
		"data: files":                     {"r1", good + "data: [{site: a, file: /etc/passwd}]\n", schemaText},
		"\"../../x\" is not a name":       {"../../x", replaced(t, good, "name: r1", "name: ../../x"), schemaText},
		"correct its name":                {"r1", good + "run: rm\n", schemaText},
		"columns":                         {"r1", good, "name: x\n"},
		"the maximum is 65536 and 104857": {"r1", good, strings.Repeat("#", maxSubmittedSchema+1)},
	} {
		if _, err := ParseSubmission(c.name, []byte(c.text), []byte(c.schema), nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
	// The worker also refuses a budget that differs from the agreed one.
	s, err := ParseSubmission("r1", []byte(good), []byte(schemaText), nil)
	testkit.Must(t, err)
	dir := t.TempDir()
	testkit.Must(t, s.Write(dir))
	job, err := s.Job(dir, specOf(t, s, dir, func(*conclavev1.RunSpec) {}))
	if err != nil || job == nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*conclavev1.RunSpec){
		"privacy.epsilon": func(p *conclavev1.RunSpec) {
			p.Epsilon = 2
		}, "privacy.delta": func(p *conclavev1.RunSpec) { p.Delta = 0.1 },
		"teachers": func(p *conclavev1.RunSpec) {
			p.Teachers = 1
		}, "privacy.unit": func(p *conclavev1.RunSpec) { p.Unit = "patient" },
		"pipeline": func(p *conclavev1.RunSpec) {
			p.Pipeline = "dpgan"
		}, "schema": func(p *conclavev1.RunSpec) { p.SchemaSha256 = "" },
	} {
		if _, err := s.Job(dir, specOf(t, s, dir, change)); err == nil ||
			!strings.HasPrefix(err.Error(), want+": the run.yaml says") {
			t.Errorf("another %s: %v", want, err)
		}
	}
}

func specOf(t *testing.T, s *Submission, dir string, change func(*conclavev1.RunSpec)) *conclavev1.RunSpec {
	t.Helper()
	spec, err := runfile.Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	job, err := Prepare(spec)
	testkit.Must(t, err)
	p := RunSpec(job.Plan, job.Spec, job.Schema, "d", false)
	change(p)
	return p
}

func TestBegunRuns(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"a/state/student.safetensors", "b/state/run.json", "c/state/student.safetensors",
		"c/report.json", "d.txt", "UPPER/state/student.safetensors", "e/state/student.safetensors"} {
		path := filepath.Join(out, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, nil, 0o644))
		if strings.HasPrefix(name, "e/") {
			testkit.Must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
		}
	}
	got := Begun(out, 10)
	slices.Sort(got[:min(len(got), 2)]) // perhaps of the same moment
	if !slices.Equal(got, []string{"a", "c", "e"}) {
		t.Errorf("begun are %v", got)
	}
	if got := Begun(out, 2); len(got) != 2 || slices.Contains(got, "e") {
		t.Errorf("of at most one %v", got)
	}
	if got := Begun(filepath.Join(out, "none"), 10); got != nil {
		t.Errorf("in no folder %v", got)
	}
	s, err := ParseSubmission("r1", []byte(good), []byte(schemaText), nil)
	testkit.Must(t, err)
	var path *fs.PathError // it tells a worker that its disk is the problem
	if err := s.Write(filepath.Join(out, "d.txt", "r1")); !errors.As(err, &path) {
		t.Errorf("written into a file: %v", err)
	}
}

// FuzzSubmission parses a run.yaml and a schema as a worker receives them: no input may panic, and an accepted one is
// a run with this name that refers to no local file.
func FuzzSubmission(f *testing.F) {
	f.Add([]byte(good), []byte(schemaText), []byte(nil))
	f.Add([]byte("name: r1\nschema: schema.yaml\nprivacy: {epsilon: 1, delta: 1e-5}\npipeline: pategan\npost: "+
		"[pgb]\npgb: {rounds: 3}\n"), []byte(schemaText), []byte(nil))
	f.Add([]byte("&a [*a]"), []byte("columns: &a [*a]"), []byte("&a [*a]"))
	f.Add([]byte(good+"study: study.yaml\n"), []byte(schemaText), []byte(studyText))
	f.Fuzz(func(t *testing.T, runFile, schema, study []byte) {
		s, err := ParseSubmission("r1", runFile, schema, study)
		if err != nil {
			return
		}
		if s.Spec.Name != "r1" || s.Spec.Schema != "schema.yaml" || len(s.Spec.Data) > 0 ||
			s.Spec.Evaluate.Test+s.Spec.Evaluate.Train+s.Spec.Evaluate.CoinFlips != "" {
			t.Fatalf("taken: %+v", s.Spec)
		}
		if _, err := withFilesBeside(string(runFile)); err == nil && !strings.Contains(string(runFile), "schema") {
			t.Fatal("a schema was put where there is none")
		}
	})
}
