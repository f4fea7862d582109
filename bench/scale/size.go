package main

import (
	"fmt"
	"strconv"
	"strings"
)

// size is a cluster: the number of nodes, each with its own connection, the number of teachers of each node, and
// the number of students. Each asks the rounds of its own run.
type size struct{ nodes, teachers, students int }

// The most of one run: a node's connections to both sides take two ports of the
// loopback and four descriptors, of two processes.
const (
	maxNodes    = 20_000
	maxTeachers = 1 << 20
	maxStudents = 32
)

func (s size) String() string {
	text := fmt.Sprintf("%dx%d", s.nodes, s.teachers)
	if s.students > 1 {
		text += fmt.Sprintf("x%d", s.students)
	}
	return text
}

func (s size) words() string {
	text := fmt.Sprintf("%d x %d", s.nodes, s.teachers)
	if s.students > 1 {
		text += fmt.Sprintf(", %d students", s.students)
	}
	return text
}

func (s size) all() int { return s.nodes * s.teachers }

func parseSizes(list string) ([]size, error) {
	var sizes []size
	for _, text := range strings.Split(list, ",") {
		bad := fmt.Errorf("%q is no size; write connections x teachers (x students), such as 1000x1", text)
		var numbers []int
		for _, number := range strings.Split(strings.TrimSpace(text), "x") {
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, bad
			}
			numbers = append(numbers, n)
		}
		if len(numbers) == 2 {
			numbers = append(numbers, 1)
		}
		if len(numbers) != 3 {
			return nil, bad
		}
		s := size{numbers[0], numbers[1], numbers[2]}
		if s.nodes < 1 || s.nodes > maxNodes || s.teachers < 1 || s.teachers > 65536 || s.all() > maxTeachers ||
			s.students < 1 || s.students > maxStudents {
			return nil, fmt.Errorf("%q: use 1 to %d connections, 1 to 65536 teachers on each, at most %d in all, "+
				"and 1 to %d students", text, maxNodes, maxTeachers, maxStudents)
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}
