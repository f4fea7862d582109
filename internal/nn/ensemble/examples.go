package ensemble

// Examples are the real records of one model by class.
type Examples struct {
	// ByClass holds them: ByClass[c] has shape [rows, features].
	ByClass [][]float32
	// View makes them when they are needed, in place of ByClass; nil for records that are held.
	View View
}

// View makes the records of one model as it sees them. It is safe for use by several goroutines.
type View interface {
	// Len is the number of records of a class.
	Len(class int) int
	// Append appends the records of a class with numbers from and up to to.
	Append(x []float32, class, from, to int) []float32
}

// Seen is the view of the records, of so many features.
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

// none says whether there is no record of a class.
func (e *Examples) none(class int) bool {
	if e.View != nil {
		return e.View.Len(class) == 0
	}
	return len(e.ByClass[class]) == 0
}

// some makes up to batch of the records of a class, those that [trainer.window] takes of records that are held.
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
