package measure

import "math"

// simplex solves a transport problem of whole numbers. Its basis is a tree of all points and a root. Each point
// hangs by one arc: from a source to a sink, or its own arc to or from the root, which costs more than any way
// around it and has no flow in the end. The tree is strongly feasible: arcs without flow point to the root, and
// a pivot preserves that, so no basis occurs twice (Cunningham 1976).
type simplex struct {
	cost []float64 // sources x sinks
	n, m int       // sources are points 0 to n-1, sinks n to n+m-1, the root n+m

	parent    []int
	arc       []int     // to the parent: a place in cost, or -1 for the point's own arc
	up        []bool    // the arc goes to the parent
	flow      []float64 // of that arc
	depth     []int
	potential []float64 // cost of the tree's path from the point to the root
	children  [][]int
	next      int // where pricing continues
}

// flow is the mass that a plan moves between two points.
type flow struct {
	from, to int
	mass     float64
}

func newSimplex(cost, supply, demand []float64) *simplex {
	n, m := len(supply), len(demand)
	s := &simplex{
		cost: cost, n: n, m: m,
		parent: make([]int, n+m+1), arc: make([]int, n+m+1), up: make([]bool, n+m+1), flow: make([]float64, n+m+1),
		depth: make([]int, n+m+1), potential: make([]float64, n+m+1), children: make([][]int, n+m+1),
	}
	root := n + m
	s.parent[root] = -1
	for k := range root {
		s.parent[k], s.arc[k], s.depth[k] = root, -1, 1
		s.children[root] = append(s.children[root], k)
		if k < n {
			s.up[k], s.flow[k], s.potential[k] = true, supply[k], s.aside()
		} else {
			s.flow[k], s.potential[k] = demand[k-n], -s.aside()
		}
	}
	return s
}

// aside is the cost of a point's own arc.
func (s *simplex) aside() float64 { return float64(s.n+s.m) * (wholeCost + 1) }

func (s *simplex) solve() []flow {
	for {
		k := s.entering()
		if k < 0 {
			break
		}
		s.pivot(k)
	}
	var plan []flow
	for k := range s.n + s.m {
		if a := s.arc[k]; a >= 0 && s.flow[k] > 0 {
			plan = append(plan, flow{a / s.m, a % s.m, s.flow[k]})
		}
	}
	return plan
}

// reduced is the cost of a unit along an arc, minus the cost of the path in the tree.
func (s *simplex) reduced(k int) float64 {
	return s.cost[k] - s.potential[k/s.m] + s.potential[s.n+k%s.m]
}

// entering searches the arcs by blocks for one that lowers the cost, the best of its block; -1 if there is none.
func (s *simplex) entering() int {
	block := max(10, int(math.Sqrt(float64(len(s.cost)))))
	best, lowest := -1, 0.0
	for looked := range len(s.cost) {
		if best >= 0 && looked%block == 0 {
			break
		}
		if c := s.reduced(s.next); c < lowest {
			best, lowest = s.next, c
		}
		if s.next++; s.next == len(s.cost) {
			s.next = 0
		}
	}
	return best
}

// pivot sends as much as possible around the cycle that arc k closes. Arc k replaces the last arc that becomes
// empty, in the direction of the cycle from its top.
func (s *simplex) pivot(k int) {
	from, to := k/s.m, s.n+k%s.m
	a, b := from, to
	for a != b {
		if s.depth[a] >= s.depth[b] {
			a = s.parent[a]
		} else {
			b = s.parent[b]
		}
	}
	top := a
	mass, out, below := math.Inf(1), -1, from
	for v := from; v != top; v = s.parent[v] {
		if s.up[v] && s.flow[v] < mass {
			mass, out, below = s.flow[v], v, from
		}
	}
	for v := to; v != top; v = s.parent[v] {
		if !s.up[v] && s.flow[v] <= mass {
			mass, out, below = s.flow[v], v, to
		}
	}
	for v := from; v != top; v = s.parent[v] {
		s.push(v, !s.up[v], mass)
	}
	for v := to; v != top; v = s.parent[v] {
		s.push(v, s.up[v], mass)
	}
	shift := s.reduced(k)
	s.hang(below, from+to-below, out, k, below == from, mass)
	if below == to {
		shift = -shift
	}
	s.settle(below, shift)
}

func (s *simplex) push(v int, more bool, mass float64) {
	if more {
		s.flow[v] += mass
	} else {
		s.flow[v] -= mass
	}
}

// hang reverses the path from the point `below` up to `out`, whose arc leaves the tree, and attaches it to the
// point `on` by arc k.
func (s *simplex) hang(below, on, out, k int, up bool, mass float64) {
	v, parent, arc := below, on, k
	for {
		oldParent, oldArc, oldUp, oldFlow := s.parent[v], s.arc[v], s.up[v], s.flow[v]
		s.drop(oldParent, v)
		s.parent[v], s.arc[v], s.up[v], s.flow[v] = parent, arc, up, mass
		s.children[parent] = append(s.children[parent], v)
		if v == out {
			return
		}
		v, parent, arc, up, mass = oldParent, v, oldArc, !oldUp, oldFlow
	}
}

func (s *simplex) drop(parent, child int) {
	list := s.children[parent]
	for k, c := range list {
		if c == child {
			list[k] = list[len(list)-1]
			s.children[parent] = list[:len(list)-1]
			return
		}
	}
}

// settle adds shift to the potentials of a subtree and recomputes its depths.
func (s *simplex) settle(v int, shift float64) {
	s.depth[v] = s.depth[s.parent[v]] + 1
	s.potential[v] += shift
	for _, c := range s.children[v] {
		s.settle(c, shift)
	}
}
