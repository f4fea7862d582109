package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// size is a cluster: so many nodes, each with a connection of its own and so many
// teachers.
type size struct{ nodes, teachers int }

// The most of one run: a node's connections to both sides take two ports of the
// loopback and four descriptors, of two processes.
const (
	maxNodes    = 20_000
	maxTeachers = 1 << 20
)

func (s size) String() string { return fmt.Sprintf("%dx%d", s.nodes, s.teachers) }

// all is the number of teachers.
func (s size) all() int { return s.nodes * s.teachers }

func parseSizes(list string) ([]size, error) {
	var sizes []size
	for _, text := range strings.Split(list, ",") {
		nodes, teachers, ok := strings.Cut(strings.TrimSpace(text), "x")
		n, err := strconv.Atoi(nodes)
		t, terr := strconv.Atoi(teachers)
		if !ok || errors.Join(err, terr) != nil {
			return nil, fmt.Errorf("%q is no size; write connections x teachers, such as 1000x1", text)
		}
		if n < 1 || n > maxNodes || t < 1 || t > 65536 || n*t > maxTeachers {
			return nil, fmt.Errorf("%q: use 1 to %d connections, 1 to 65536 teachers on each and at most %d in all", text, maxNodes, maxTeachers)
		}
		sizes = append(sizes, size{n, t})
	}
	return sizes, nil
}
