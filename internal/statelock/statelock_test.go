package statelock

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const folder = "CONCLAVE_TEST_STATELOCK"

func TestMain(m *testing.M) {
	dir := os.Getenv(folder)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Take(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("taken")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
}

// A folder has one process. A process that is killed leaves no lock behind.
func TestAFolderHasOneProcess(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, Check(dir))
	testkit.Must(t, Check(filepath.Join(dir, "none")))
	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), folder+"="+dir)
	_, err := first.StdinPipe()
	testkit.Must(t, err)
	out, err := first.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, first.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "taken\n" {
		t.Fatalf("the first process says %q (%v)", line, err)
	}
	_, taken := Take(dir)
	for _, err := range []error{taken, Check(dir)} {
		if want := fmt.Sprintf("by process %d; stop that one", first.Process.Pid); !errors.Is(err, ErrTaken) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("beside it: %v, want %q", err, want)
		}
	}
	testkit.Must(t, first.Process.Kill())
	_ = first.Wait()
	release, err := Take(dir)
	testkit.Must(t, err)
	release()
	testkit.Must(t, Check(dir))
}

func TestFoldersThatAreNotThere(t *testing.T) {
	if _, err := Take(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// Readers share a file; a writer waits until the last of them has closed it.
func TestReadersShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	opened := func() *os.File { return testkit.Value(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)) }
	first, second, writer := opened(), opened(), opened()
	defer writer.Close()
	testkit.Must(t, Lock(first, true))
	testkit.Must(t, Lock(second, true))
	testkit.Must(t, first.Close())
	if err := lock(writer, exclusive|now); !errors.Is(err, errBusy) {
		t.Errorf("beside a reader: %v", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- Lock(writer, false) }()
	testkit.Must(t, second.Close())
	testkit.Must(t, testkit.Receive(t, locked))
}
