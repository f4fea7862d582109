package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/conclave-dp/conclave/test/clustertest"
)

// tryVariable asks an enclosed process to test whether namespaces are available.
const tryVariable = "FAULTS_TRY"

// runEnclosed runs this program again in its own network, mount and process namespaces. Its interfaces are private,
// and the end of its first process ends all others. The error says why that is impossible; then nothing was run.
func runEnclosed(dir string) (code int, err error) {
	if out, err := enclosedCommand(dir, tryVariable+"=1").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	// The death of this thread kills the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := enclosedCommand(dir)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		return 1, nil
	}
	if err != nil && exit == nil {
		return 0, err
	}
	return c.ProcessState.ExitCode(), nil
}

func enclosedCommand(dir string, environment ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), clustertest.RoleVariable+"="+enclosed, dirVariable+"="+dir)
	c.Env = append(c.Env, environment...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if id := os.Geteuid(); id != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return c
}

// enclose sets up the namespaces from the inside.
func enclose() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE}, // later mounts stay inside
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0}, // where ip keeps its names
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := ip("link", "set", "lo", "up"); err != nil {
		return err
	}
	if os.Getenv(tryVariable) == "" {
		return nil
	}
	n, err := newNetwork("tried")
	if err == nil {
		err = n.block("tried", network0)
	}
	if err == nil {
		os.Exit(0)
	}
	return err
}
