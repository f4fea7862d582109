package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/idx"
)

var long = flag.Bool("long", false, "run the demo, too")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"conclave": main})
}

func TestScripts(t *testing.T) {
	finished := finishedRun(t)
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "flchain"))
	testkit.Must(t, err)
	t.Run("an interrupted report", func(t *testing.T) { interruptedReport(t, finished(), example) })
	scripts, err := filepath.Abs(filepath.Join("testdata", "script"))
	testkit.Must(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 scripts, // call changes the folder of the process
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLE", example)
			e.Setenv(clitest.StateHome, filepath.Join(e.WorkDir, ".state"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Getuid() == 0, nil
			case "long":
				return *long, nil
			}
			return false, errors.New("unknown condition " + name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"finished": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(finished())))
			},
			"call":    clitest.Script(conclave.Command),
			"edit":    edit,
			"rechain": rechain,
			"relist":  relist,
			"fields":  fields,
			"lines":   lines,
			"idx":     writeIDX,

			"imagemodel": imageModel,
			"etcd":       etcd,
		},
	})
}

// interruptedReport checks that a report whose context has ended says that it was interrupted.
func interruptedReport(t *testing.T, finished, example string) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := conclave.Command()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs([]string{"report", "--from", finished, "--out", filepath.Join(t.TempDir(), "out"),
		"--test", filepath.Join(example, "test.csv.gz")})
	if err := c.ExecuteContext(ctx); err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
		t.Errorf("the error is %v", err)
	}
}

// smallRun is a run that takes a second. The quality of its rows does not matter here.
const smallRun = `name: small
schema: schema.yaml
data:
  - {site: north, file: train.csv.gz, share: 0.5}
  - {site: south, file: train.csv.gz, share: 0.5}
privacy: {epsilon: 1, delta: 1e-5}
teachers: 30
pipeline: pategan
warm_start: {embed: 0}
release: {rows: 200}
evaluate: {test: test.csv.gz}
pategan: {labels: 64, queries: 16, student: {generator_steps: 5, step: 0.01}}
`

// finishedRun makes a small run on the first call and returns its folder, which scripts copy.
func finishedRun(t *testing.T) func() string {
	dir, err := os.MkdirTemp("", "cmd")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return sync.OnceValue(func() string {
		example := filepath.Join(dir, "example")
		testkit.Must(t, os.CopyFS(example, flchain.Files))
		path := filepath.Join(example, "small.yaml")
		testkit.Must(t, os.WriteFile(path, []byte(smallRun), 0o644))
		spec, err := runfile.Load(path)
		testkit.Must(t, err)
		out := filepath.Join(dir, "out")
		if _, err := local.Run(t.Context(), spec, local.Options{Out: out}); err != nil {
			t.Fatal(err)
		}
		// Scripts do not use the cluster's state, except the authority.
		ca, _ := certs.AuthorityFiles(filepath.Join(out, "state", "certs"))
		testkit.Must(t, os.Rename(ca, filepath.Join(out, "ca.crt")))
		testkit.Must(t, os.RemoveAll(filepath.Join(out, "state")))
		return out
	})
}

// edit changes a file:
//
//	edit FILE flip TEXT        flip one bit of the first byte of TEXT
//	edit FILE remove N         remove line N, from 1; negative counts from the end
//	edit FILE swap N M         swap two lines
//	edit FILE cut N            cut the last N bytes off
//	edit FILE replace OLD NEW  replace the first OLD
//	edit FILE number KEY NEW   replace the number of a JSON key
func edit(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	raw, err := os.ReadFile(path)
	ts.Check(err)
	all := slices.Collect(bytes.Lines(raw))
	line := func(text string) int {
		n, err := strconv.Atoi(text)
		ts.Check(err)
		if n < 0 {
			return len(all) + n
		}
		return n - 1
	}
	switch args[1] {
	case "flip":
		at := bytes.Index(raw, []byte(args[2]))
		if at < 0 {
			ts.Fatalf("no %q in %s", args[2], args[0])
		}
		raw = bytes.Clone(raw)
		raw[at] ^= 1
	case "remove":
		at := line(args[2])
		raw = bytes.Join(slices.Delete(all, at, at+1), nil)
	case "swap":
		a, b := line(args[2]), line(args[3])
		all[a], all[b] = all[b], all[a]
		raw = bytes.Join(all, nil)
	case "cut":
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		raw = raw[:len(raw)-n]
	case "replace":
		if !bytes.Contains(raw, []byte(args[2])) {
			ts.Fatalf("no %q in %s", args[2], args[0])
		}
		raw = bytes.Replace(raw, []byte(args[2]), []byte(args[3]), 1)
	case "number":
		number := regexp.MustCompile(`("` + args[2] + `": ?)[-+.0-9e]+`)
		if len(number.FindAll(raw, -1)) != 1 {
			ts.Fatalf("%s has not one number %s", args[0], args[2])
		}
		raw = number.ReplaceAll(raw, []byte("${1}"+args[3]))
	default:
		ts.Fatalf("unknown edit %q", args[1])
	}
	ts.Check(os.WriteFile(path, raw, 0o644))
}

// rechain recomputes the hashes of an edited ledger, like somebody who rewrites it.
func rechain(ts *testscript.TestScript, _ bool, args []string) {
	var out bytes.Buffer
	var previous *ledger.Entry
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var e ledger.Entry
		ts.Check(json.Unmarshal([]byte(line), &e))
		ts.Check(e.Seal(previous))
		canonical, err := e.Canonical()
		ts.Check(err)
		out.Write(append(canonical, '\n'))
		previous = &e
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o644))
}

// relist updates the list of files in a run's folder for altered files, and the certificate and ledger for that list,
// like a forger who hopes that nobody checks the signatures.
func relist(ts *testscript.TestScript, _ bool, args []string) {
	sum := func(text string) string { return proof.FileOf("", []byte(text)).SHA256 }
	list := args[0] + "/" + proof.ManifestFile
	before := ts.ReadFile(list)
	m, err := proof.ParseManifest([]byte(before))
	ts.Check(err)
	for i, f := range m.Files {
		m.Files[i] = proof.FileOf(f.Name, []byte(ts.ReadFile(args[0]+"/"+f.Name)))
	}
	after, err := m.Canonical()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(list), after, 0o644))
	lines := strings.Replace(ts.ReadFile(args[0]+"/ledger.jsonl"), sum(before), sum(string(after)), 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+"/ledger.jsonl"), []byte(lines), 0o644))
	rechain(ts, false, []string{args[0] + "/ledger.jsonl"})
	lines = strings.TrimSuffix(ts.ReadFile(args[0]+"/ledger.jsonl"), "\n")
	var last ledger.Entry
	ts.Check(json.Unmarshal([]byte(lines[strings.LastIndexByte(lines, '\n')+1:]), &last))
	for _, name := range []string{"certificate.json", "report.json"} {
		text, err := os.ReadFile(ts.MkAbs(args[0] + "/" + name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		ts.Check(err)
		c := strings.Replace(string(text), sum(before), sum(string(after)), 1)
		c = regexp.MustCompile(`"ledger_head": "[0-9a-f]*"`).ReplaceAllString(c, `"ledger_head": "`+last.Hash+`"`)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+"/"+name), []byte(c), 0o644))
	}
}

// fields fails unless the last line of a file is a JSON object with exactly the named fields. A dotted prefix selects
// a nested object: fields FILE runs.small a b.
func fields(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile(args[0]))
	var object map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &object))
	want := args[2:]
	if args[1] != "." {
		for key := range strings.SplitSeq(args[1], ".") {
			raw := object[key]
			object = nil
			ts.Check(json.Unmarshal(raw, &object))
		}
	}
	got := make([]string, 0, len(object))
	for key := range object {
		got = append(got, key)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		ts.Fatalf("fields of %s (-want +got):\n%s", args[0], diff)
	}
}

// lines fails unless a file has this many lines.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); got != want {
		ts.Fatalf("%s has %d lines, want %d", args[0], got, want)
	}
}

// writeIDX writes 24 images of 2 x 2 pixels, dark ones of class 0 and bright ones of
// class 1: idx IMAGES LABELS.
func writeIDX(ts *testscript.TestScript, _ bool, args []string) {
	x := &idx.Images{Shape: partition.Image{Height: 2, Width: 2, Channels: 1}}
	for i := range 24 {
		x.Classes = append(x.Classes, i%2)
		for p := range 4 {
			x.Pixels = append(x.Pixels, byte(200*(i%2)+5*p+i))
		}
	}
	images, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer images.Close()
	labels, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	defer labels.Close()
	ts.Check(idx.Write(images, labels, x))
}

// imageModel writes the model folder of an untrained generator of images of 2 x 2
// pixels and two classes.
func imageModel(ts *testscript.TestScript, _ bool, args []string) {
	schema, err := partition.ParseSchema([]byte(`label: y
format: idx
image: {height: 2, width: 2, channels: 1}
columns:
  - {name: p, kind: integer, lower: 0, upper: 255, repeat: 4}
  - {name: y, kind: categorical, categories: [cat, dog]}
`))
	ts.Check(err)
	spec := pipeline.GeneratorSpec{Noise: 2, Hidden: 4, Layers: 1, Classes: 2}
	g, err := pipeline.NewGenerator(encode.New(schema), spec, rand.New(rand.NewPCG(1, 1)))
	ts.Check(err)
	m, err := pipeline.NewNetwork(schema, g, []float64{0.5, 0.5})
	ts.Check(err)
	ts.Check(m.Save(ts.MkAbs(args[0])))
}
