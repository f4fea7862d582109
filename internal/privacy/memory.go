package privacy

import "sync"

// memory has the last results of a function, by its arguments: at most so many.
type memory[K comparable] struct {
	most  int
	mu    sync.Mutex
	known map[K]float64
}

func (m *memory[K]) of(arguments K, f func() float64) float64 {
	m.mu.Lock()
	y, ok := m.known[arguments]
	m.mu.Unlock()
	if ok {
		return y
	}
	y = f()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= m.most || m.known == nil {
		m.known = map[K]float64{}
	}
	m.known[arguments] = y
	return y
}

// remembered is f, asked once for each x.
func remembered[K comparable](f func(K) float64) func(K) float64 {
	m := memory[K]{most: 1000}
	return func(x K) float64 { return m.of(x, func() float64 { return f(x) }) }
}
