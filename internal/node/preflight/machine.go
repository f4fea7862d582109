package preflight

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/mapped"
)

const (
	// leastDisk is the space that a state folder needs: teachers' weights are rewritten before the old ones are
	// deleted.
	leastDisk = 1 << 30
	// leastFiles is far more than a node has open.
	leastFiles = 256
)

func (c *checker) checkMachine() {
	if c.config.State != "" {
		if free, err := mapped.Free(existing(c.config.State)); err != nil {
			c.skip("disk", err.Error())
		} else if free < leastDisk {
			c.add("disk", Warning, "free some space: without it the node can store no charges, and answers nothing",
				"%d MiB are free in %s", free>>20, existing(c.config.State))
		} else {
			c.ok("disk", "%d MiB are free in %s", free>>20, existing(c.config.State))
		}
	}
	if files, err := openFiles(); err != nil {
		c.skip("open files", err.Error())
	} else if files < leastFiles {
		c.add("open files", Warning, "raise the limit, such as with ulimit -n 1024", "this process may have %d open",
			files)
	} else {
		c.ok("open files", "%d may be open", files)
	}
	c.checkAuditLog()
	for _, listen := range []string{c.config.HTTP.Listen, c.config.HTTP.Control.Listen} {
		if listen == "" {
			continue
		}
		if l, err := net.Listen("tcp", listen); err != nil {
			c.add("http port", Problem,
				"stop the process that uses it (perhaps this node is already running), or change the port under "+
					"http", "%v", err)
		} else {
			_ = l.Close()
			c.ok("http port", "%s is free", listen)
		}
	}
}

func (c *checker) checkAuditLog() {
	path := c.config.AuditLog
	if path == "" {
		return
	}
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir := existing(filepath.Dir(path)); !writable(dir) {
			c.add("audit log", Problem, "make the folder writable: otherwise no round is answered",
				"%s cannot be created in %s", path, dir)
			return
		}
	default:
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			c.add("audit log", Problem, "make the file writable: otherwise no round is answered", "%v", err)
			return
		}
		_ = f.Close()
	}
	c.ok("audit log", "%s can be written", path)
}

// estimateDisk compares the room for dividing the records on the disk with what is free.
func (c *checker) estimateDisk(rows int) {
	dir, need := existing(c.config.State), question.RoomToDivide(c.schema, rows, rows)
	free, err := mapped.Free(dir)
	switch {
	case err != nil:
		c.skip("room for records", err.Error())
	case need > free:
		c.add("room for records", Warning, "make room, or move the state folder to another disk: until then runs of "+
			"pategan, gpate and dpgan are refused", "dividing the records takes %d MiB in %s, and %d MiB are free",
			need>>20+1, dir, free>>20)
	default:
		c.ok("room for records", "dividing the records takes %d MiB in %s; %d MiB are free", need>>20+1, dir, free>>20)
	}
}

// estimate compares the memory for the records with what is free.
func (c *checker) estimate(rows int) {
	// Twice: as parsed, and as encoded for teachers.
	need := uint64(rows) * uint64(encode.New(c.schema).Width()) * 4 * 2
	free, ok := availableMemory()
	switch {
	case !ok:
		c.skip("memory", "this system does not report free memory")
	case need > free:
		c.add("memory", Warning, "add memory, or divide the site's records among several nodes",
			"the records need about %d MiB of memory, and %d MiB are free", need>>20, free>>20)
	default:
		c.ok("memory", "the records need at most %d MiB, plus the teachers' weights; %d MiB are free", need>>20+1,
			free>>20)
	}
}

// availableMemory is the memory that the system, or the process's cgroup, has left.
func availableMemory() (uint64, bool) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0, false
			}
			free := kib << 10
			if raw, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
				if most, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err == nil {
					free = min(free, most)
				}
			}
			return free, true
		}
	}
	return 0, false
}
