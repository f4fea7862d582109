package ensemble

// Examples are the real records of one model by class.
type Examples struct {
	// ByClass holds them: ByClass[c] has shape [rows, features].
	ByClass [][]float32
	// View computes them when they are needed, instead of ByClass; nil for records in memory.
	View View
}

// View computes the records of one model as it sees them. It is safe for concurrent use.
type View interface {
	// Len is the number of records of a class.
	Len(class int) int
	// Append appends records from to to-1 of a class.
	Append(x []float32, class, from, to int) []float32
}

// Seen is the view of the records, with the given number of features.
func (e *Examples) Seen(features int) View {
	if e.View != nil {
		return e.View
	}
	return held{e.ByClass, features}
}

type held struct {
	byClass  [][]float32
	features int
}

func (h held) Len(class int) int { return len(h.byClass[class]) / h.features }

func (h held) Append(x []float32, class, from, to int) []float32 {
	return append(x, h.byClass[class][from*h.features:to*h.features]...)
}

// none reports whether there is no record of a class.
func (e *Examples) none(class int) bool {
	if e.View != nil {
		return e.View.Len(class) == 0
	}
	return len(e.ByClass[class]) == 0
}

// some computes up to batch records of a class: the same ones that [trainer.window] takes from records in memory.
func (t *trainer) some(v View, class, batch int) []float32 {
	n := v.Len(class)
	if n <= batch {
		t.seen = v.Append(t.seen[:0], class, 0, n)
		return t.seen
	}
	at := t.rng.IntN(n)
	t.seen = v.Append(t.seen[:0], class, at, min(n, at+batch))
	if over := at + batch - n; over > 0 {
		t.seen = v.Append(t.seen, class, 0, over)
	}
	return t.seen
}
