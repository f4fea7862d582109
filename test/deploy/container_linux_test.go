package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// containerVariable makes the test binary the last step before a container's program.
const containerVariable = "DEPLOY_CONTAINER"

func TestMain(m *testing.M) {
	if raw := os.Getenv(containerVariable); raw != "" {
		fmt.Fprintln(os.Stderr, "container:", enter(raw))
		os.Exit(125)
	}
	os.Exit(m.Run())
}

// bind is a folder or file of this machine, mounted in a container's root.
type bind struct {
	From, To string
	ReadOnly bool
}

// container is a process as Kubernetes would start it: in a read-only root, with its volumes, as a user without
// capabilities, in its own network. It has no /proc and no /dev, so less than a pod has.
type container struct {
	Root    string
	Network string // name of a network namespace; empty uses the test's
	Binds   []bind
	User    int
	Group   int
	FSGroup int
	Args    []string
	Env     []string
}

// command is the container as a command to start. The test must be able to write to its root, to make the mount
// points.
func (c container) command(t testing.TB) *exec.Cmd {
	t.Helper()
	for _, b := range c.Binds {
		at := filepath.Join(c.Root, b.To)
		info, err := os.Stat(b.From)
		testkit.Must(t, err)
		if info.IsDir() {
			testkit.Must(t, os.MkdirAll(at, 0o755))
			continue
		}
		testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		testkit.Must(t, os.WriteFile(at, nil, 0o644))
	}
	raw, err := json.Marshal(c)
	testkit.Must(t, err)
	self, err := os.Executable()
	testkit.Must(t, err)
	command := exec.Command(self)
	command.Env = []string{containerVariable + "=" + string(raw)}
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return command
}

// enter replaces this process with the program; it returns only an error.
func enter(raw string) error {
	// Namespaces and capabilities belong to a thread until the program starts.
	runtime.LockOSThread()
	var c container
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		return err
	}
	for _, step := range []func() error{c.joinNetwork, c.mount, c.dropRights} {
		if err := step(); err != nil {
			return err
		}
	}
	return fmt.Errorf("start %s: %w", c.Args[0], unix.Exec(c.Args[0], c.Args, c.Env))
}

func (c container) joinNetwork() error {
	if c.Network == "" {
		return nil
	}
	f, err := os.Open("/var/run/netns/" + c.Network)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("join the network %s: %w", c.Network, err)
	}
	return nil
}

func (c container) mount() error {
	const sealed = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	mount := func(from, to string, flags uintptr) error {
		if err := unix.Mount(from, to, "", flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", to, err)
		}
		return nil
	}
	if err := mount("", "/", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	if err := mount(c.Root, c.Root, unix.MS_BIND); err != nil {
		return err
	}
	for _, b := range c.Binds {
		at := filepath.Join(c.Root, b.To)
		if err := mount(b.From, at, unix.MS_BIND); err != nil {
			return err
		}
		if b.ReadOnly {
			if err := mount("", at, sealed); err != nil {
				return err
			}
		}
	}
	if err := mount("", c.Root, sealed); err != nil {
		return err
	}
	if err := unix.Chroot(c.Root); err != nil {
		return fmt.Errorf("change to the root %s: %w", c.Root, err)
	}
	return unix.Chdir("/")
}

// dropRights drops all capabilities permanently.
func (c container) dropRights() error {
	for capability := uintptr(0); ; capability++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err == unix.EINVAL {
			break // past the last one
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Setgroups([]int{c.FSGroup}); err != nil {
		return fmt.Errorf("set the groups: %w", err)
	}
	if err := unix.Setresgid(c.Group, c.Group, c.Group); err != nil {
		return fmt.Errorf("set the group: %w", err)
	}
	if err := unix.Setresuid(c.User, c.User, c.User); err != nil {
		return fmt.Errorf("set the user: %w", err)
	}
	return nil
}

// needRoot skips the test if containers cannot be made, and says what is missing.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can change the root of a process: run the test as root to see the image run")
	}
	root := t.TempDir()
	c := container{Root: root, User: 65532, Group: 65532, FSGroup: 65532, Args: []string{"/none"}}
	said, err := c.command(t).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 125 ||
		!bytes.Contains(said, []byte("start /none: no such file")) {
		t.Skipf("this machine lets no container be made: %v, %s", err, said)
	}
}
