package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// mostCommands is the largest number of commands that a study of three sites may take.
const mostCommands = 16

var (
	studyBlock = regexp.MustCompile("(?ms)^```(sh|yaml|text)( \\w+)?\n(.*?)^```$")
	typed      = regexp.MustCompile(`^(\w+)\$ (.*?)( &)?$`)
	setup      = regexp.MustCompile(`(?m)^    (conclave .*)$`)
)

// places are where the commands of a study are typed, each with a folder and, if the test may make them, its own
// network namespace.
type places struct {
	t       *testing.T
	dir     string
	network string // prefix of the namespaces' names; empty on loopback
	host    string // of the aggregator
	last    map[string]*typing
}

// typing is a typed command, with its output and its typed input.
type typing struct {
	c    *exec.Cmd
	line string
	in   io.WriteCloser
	done chan struct{}

	mu       sync.Mutex
	said     bytes.Buffer
	answered int
}

// Write takes the command's output, and answers its questions like people who have compared the fingerprints by
// telephone.
func (s *typing) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said.Write(b)
	for n := bytes.Count(s.said.Bytes(), []byte("yes or no: ")); s.answered < n; s.answered++ {
		s.said.WriteString("yes\n")
		if _, err := io.WriteString(s.in, "yes\n"); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (s *typing) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// awaitLine waits until a line was printed, where "..." stands for anything.
func (s *typing) awaitLine(t *testing.T, want string) {
	t.Helper()
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	line := regexp.MustCompile("(?m)^" + strings.Join(parts, ".*") + "$")
	seen := -1
	testkit.Eventually(t, fmt.Sprintf("%q to print %q", s.line, want), func() bool {
		ended := s.ended()
		text := s.text()
		if len(text) > seen && line.MatchString(text) {
			return true
		}
		if seen = len(text); ended {
			t.Fatalf("%q ended and did not print %q", s.line, want)
		}
		return false
	})
}

func (s *typing) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// newPlaces makes places; prefix distinguishes their namespaces from those of other tests.
func newPlaces(t *testing.T, prefix string, names ...string) *places {
	t.Helper()
	p := &places{t: t, dir: t.TempDir(), host: "127.0.0.1", last: map[string]*typing{},
		network: fmt.Sprintf("%s%d-", prefix, os.Getpid())}
	for _, name := range names {
		testkit.Must(t, os.Mkdir(filepath.Join(p.dir, name), 0o700))
	}
	if err := p.connect(names); err != nil {
		t.Log("on loopback, as there are no network namespaces:", err)
		p.network, p.host = "", "127.0.0.1"
	}
	return p
}

// connect gives each place a network namespace. All are on one switch in another namespace: the machine's own is
// unchanged.
func (p *places) connect(names []string) error {
	lan := p.network + "lan"
	ip := func(args ...string) error {
		if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
		}
		return nil
	}
	add := func(name string) error {
		if err := ip("netns", "add", name); err != nil {
			return err
		}
		p.t.Cleanup(func() { testkit.Must(p.t, ip("netns", "del", name)) })
		return ip("-n", name, "link", "set", "lo", "up")
	}
	if err := add(lan); err != nil {
		return err
	}
	commands := [][]string{{"-n", lan, "link", "add", "br0", "type", "bridge"}, {"-n", lan, "link", "set", "br0", "up"}}
	for i, name := range names {
		port, ns := fmt.Sprintf("port%d", i), p.network+name
		if err := add(ns); err != nil {
			return err
		}
		commands = append(commands,
			[]string{"-n", lan, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", ns},
			[]string{"-n", lan, "link", "set", port, "master", "br0", "up"},
			[]string{"-n", ns, "addr", "add", fmt.Sprintf("10.98.0.%d/24", 10+i), "dev", "eth0"},
			[]string{"-n", ns, "link", "set", "eth0", "up"})
	}
	for _, c := range commands {
		if err := ip(c...); err != nil {
			return err
		}
	}
	p.host = "10.98.0.10" // of the first place
	return nil
}

// start types a command at a place.
func (p *places) start(place, line string) *typing {
	p.t.Helper()
	args := strings.Fields(line)
	args[0] = binary(args[0])
	if p.network != "" {
		args = append([]string{"ip", "netns", "exec", p.network + place}, args...)
	}
	s := &typing{c: exec.Command(args[0], args[1:]...), line: line, done: make(chan struct{})}
	s.c.Dir = filepath.Join(p.dir, place)
	s.c.Stdout, s.c.Stderr = s, s
	var err error
	s.in, err = s.c.StdinPipe()
	testkit.Must(p.t, err)
	testkit.Must(p.t, s.c.Start())
	go func() {
		_ = s.c.Wait() // the exit code is checked elsewhere
		close(s.done)
	}()
	p.t.Cleanup(func() { p.end(s) })
	p.last[place] = s
	return s
}

// end ends a running command, and shows its output if the test failed.
func (p *places) end(s *typing) {
	select {
	case <-s.done:
	default:
		_ = s.c.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.done:
		case <-time.After(testkit.Patience):
			_ = s.c.Process.Kill()
			testkit.Receive(p.t, s.done)
		}
	}
	if p.t.Failed() {
		p.t.Logf("%s (%v) said:\n%s", s.line, s.c.ProcessState, s.text())
	}
}

// code waits for the end of a command.
func (p *places) code(s *typing) int {
	testkit.Receive(p.t, s.done)
	return s.c.ProcessState.ExitCode()
}

// hand copies a file or folder from one place to another, as people hand it over.
func (p *places) hand(from, to string) {
	from, to = filepath.Join(p.dir, from), filepath.Join(p.dir, to)
	info, err := os.Stat(from)
	testkit.Must(p.t, err)
	if info.IsDir() {
		testkit.Must(p.t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	testkit.Must(p.t, os.WriteFile(to, testkit.Read(p.t, from), 0o600))
}

// TestStudyTutorial follows docs/tutorial-study.md and docs/tutorial-study-run.md: it types the commands, compares
// their output with the text, and edits only study.yaml.
func TestStudyTutorial(t *testing.T) {
	t.Parallel()
	sites := []string{"north", "south", "west"}
	p := newPlaces(t, "ct", slices.Concat([]string{"operator"}, sites, []string{"lab"})...)
	text := ""
	for _, page := range []string{"tutorial-study.md", "tutorial-study-run.md"} {
		text += string(testkit.Read(t, filepath.Join("..", "..", "docs", page)))
	}
	shard := exec.Command(binary("conclave"), strings.Fields(setup.FindStringSubmatch(text)[1])[1:]...)
	shard.Dir = filepath.Join("..", "..")
	shard.Args[len(shard.Args)-1] = filepath.Join(p.dir, "rows")
	if said, err := shard.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "operator", "schema.yaml"), testkit.Read(t, built.schema), 0o600))
	for i, site := range sites {
		p.hand(fmt.Sprintf("rows/shard-%d.csv.gz", i), site+"/rows.csv.gz")
	}
	_, port, _ := strings.Cut(testkit.FreeAddress(t, "127.0.0.1"), ":")

	commands, edits := 0, 0
	var last *typing
	for _, b := range studyBlock.FindAllStringSubmatch(text, -1) {
		switch b[1] {
		case "yaml":
			edits++
			study := strings.NewReplacer("127.0.0.1", p.host, "7443", port).Replace(b[3])
			testkit.Must(t, os.WriteFile(filepath.Join(p.dir, "operator", "study.yaml"), []byte(study), 0o600))
		case "sh":
			for line := range strings.Lines(b[3]) {
				commands++
				last = p.typeLine(strings.TrimSpace(line))
			}
		case "text":
			s := last
			if place := strings.TrimSpace(b[2]); place != "" {
				s = p.last[place]
			}
			for line := range strings.Lines(b[3]) {
				s.awaitLine(t, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	if commands > mostCommands || edits != 1 {
		t.Errorf("%d commands, %d are the most; %d files are edited", commands, mostCommands, edits)
	}
	for _, file := range []string{"synthetic.csv", "certificate.json"} {
		if len(testkit.Read(t, filepath.Join(p.dir, "lab", "result", file))) == 0 {
			t.Errorf("%s is empty", file)
		}
	}
	p.keysStay(sites)
}

// typeLine types a line of the tutorial, and hands over the files that its text mentions before the next line.
func (p *places) typeLine(line string) *typing {
	p.t.Helper()
	parts := typed.FindStringSubmatch(line)
	if parts == nil {
		p.t.Fatalf("%q is no command that somebody types", line)
	}
	place, command, stays := parts[1], parts[2], parts[3] != ""
	switch {
	case stays && strings.HasPrefix(command, "teacher"): // its join is over, and the student has the folder
		if code := p.code(p.last[place]); code != 0 {
			p.t.Fatalf("join at %s ended with %d", place, code)
		}
	case strings.HasPrefix(command, "conclave run submit"):
		p.hand("operator/study/students/lab", "lab/lab")
	}
	s := p.start(place, command)
	if stays || strings.HasPrefix(command, "teacher join") {
		return s
	}
	code := p.code(s)
	// A run that has not asked yet cannot be approved, and one that is not done cannot be fetched: people try again.
	for again := time.Now(); code != 0 && time.Since(again) < testkit.Patience &&
		(strings.HasPrefix(command, "teacher approve") || strings.HasPrefix(command, "conclave run fetch")); {
		time.Sleep(100 * time.Millisecond)
		s = p.start(place, command)
		code = p.code(s)
	}
	if code != 0 {
		p.t.Fatalf("%s ended with %d", line, code)
	}
	if strings.HasPrefix(command, "conclave study make") {
		for _, site := range []string{"north", "south", "west"} {
			p.hand("operator/study/kits/"+site+".zip", site+"/"+site+".zip")
		}
	}
	return s
}

// keysStay checks that a site's key is only at its site, and that only its owner may read it.
func (p *places) keysStay(sites []string) {
	keys := map[string][]byte{} // by path
	for _, site := range sites {
		path := filepath.Join(p.dir, site, site, "node-"+site+".key")
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			p.t.Errorf("the key of %s: %v, %v", site, info, err)
		}
		keys[path] = testkit.Read(p.t, path)
	}
	testkit.Must(p.t, filepath.WalkDir(p.dir, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&os.ModeSocket != 0 {
			return err
		}
		raw, err := os.ReadFile(at)
		for path, key := range keys {
			if err == nil && at != path && bytes.Contains(raw, key) {
				p.t.Errorf("%s holds the key %s", at, path)
			}
		}
		return nil
	}))
}
